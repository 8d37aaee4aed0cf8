// SPDX-License-Identifier: Apache-2.0
// What an emulated device refuses or cannot do: launches beyond an sm_90's limits, more CTAs than
// fit, calls in host functions, and the errors that tests inject.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/simt/device/registers.h"
#include "tests/simt/device/table.h"
#include "tests/simt/device_fixture.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using device::Scope;

constexpr GpuError kInvalidConfiguration = 9;

TEST(Limits, LaunchesBeyondTheDeviceAreRefused) {
  TestDevice gpu({.devices = 1});
  const GpuStream stream = gpu.stream();
  const auto launch = [&](const Shape& shape) {
    return TestDevice::launch("any", shape, stream, [] {});
  };
  EXPECT_EQ(launch({.threads = 1025}), kInvalidConfiguration);
  EXPECT_EQ(launch({.ctas = 0}), kInvalidConfiguration);
  EXPECT_EQ(launch({.shared_bytes = 228 << 10}), kInvalidConfiguration);
  EXPECT_CUDA(launch({.shared_bytes = 227 << 10}));
  int each = 0;
  EXPECT_CUDA(calls::resident_ctas(&each, TestDevice::kernel("any", [] {}), 256, 0));
  ASSERT_GT(each, 0);
  const auto all = static_cast<unsigned>(each) * 8;
  EXPECT_CUDA(launch({.ctas = all, .threads = 256, .cooperative = true}));
  EXPECT_EQ(launch({.ctas = all + 1, .threads = 256, .cooperative = true}),
            kCooperativeLaunchTooLarge);
  EXPECT_CUDA(launch({.ctas = all + 1, .threads = 256}));
  EXPECT_CUDA(calls::synchronize_stream(stream));
}

TEST(Limits, RegistersOfAKernelLimitItsCtas) {
  TestDevice gpu({.devices = 1});
  const GpuStream stream = gpu.stream();
  const auto fit = [](unsigned registers, int threads) {
    calls::Kernel kernel = TestDevice::kernel("any", [] {});
    kernel.registers = registers;
    int each = -1;
    EXPECT_CUDA(calls::resident_ctas(&each, kernel, threads, 0));
    return each;
  };
  EXPECT_EQ(fit(32, 512), 4);
  EXPECT_EQ(fit(33, 512), 3) << "given by 8";
  EXPECT_EQ(fit(64, 1024), 1);
  EXPECT_EQ(fit(65, 1024), 0);
  EXPECT_EQ(fit(128, 512), 1);
  const Shape heavy{.ctas = 9, .threads = 512, .cooperative = true, .registers = 128};
  EXPECT_EQ(TestDevice::launch("heavy", heavy, stream, [] {}), kCooperativeLaunchTooLarge);
  const Shape too_heavy{.threads = 512, .registers = 136};
  EXPECT_EQ(TestDevice::launch("too heavy", too_heavy, stream, [] {}), kGpuLaunchOutOfResources);
}

TEST(Limits, KernelsHaveTheRegistersThatPtxasGaveThem) {
  if (!has_register_table()) GTEST_SKIP() << "no kernels/cuda/kernels.tsv";
  TestDevice gpu({.devices = 1});
  const GpuApi& api = gpu_table(cuda::kernel_entry);
  for (int k = 0; k < cuda::kKernels; ++k) {
    const cuda::KernelEntry& entry = cuda::kernel_entry(k);
    if (entry.name == nullptr) continue;
    const auto registers = static_cast<int>(registers_of(entry));
    EXPECT_GT(registers, 0) << entry.name << ", " << entry.type;
    GpuKernelInfo info;
    EXPECT_CUDA(api.kernel_info(&info, k));
    EXPECT_EQ(info.registers, registers);
    int each = 0;
    EXPECT_CUDA(api.resident_ctas(&each, k, info.max_threads, 0));
    EXPECT_GT(each, 0) << entry.name << " does not fit its launch bounds";
  }
}

// CTAs that wait for each other end only if all of them fit at once.
bool all_meet(unsigned ctas, bool cooperative, std::uint64_t seed) {
  TestMachine machine(
      {.seed = seed, .limits = {.multiprocessors = 2, .ctas_per_multiprocessor = 4}});
  auto* const arrived = machine.allocate<std::uint32_t>(1);
  machine.launch("meet", {.ctas = ctas, .threads = 32, .cooperative = cooperative}, [=] {
    if (device::thread_index() != 0) return;
    device::add_relaxed<Scope::kDevice>(arrived, 1u);
    while (device::load_acquire<Scope::kDevice>(arrived) != device::cta_count()) device::spin();
  });
  return machine.run();
}

TEST(Limits, OnlyAsManyCtasRunAtOnceAsFit) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_TRUE(all_meet(8, false, seed));
    EXPECT_TRUE(all_meet(8, true, seed));
    EXPECT_FALSE(all_meet(9, false, seed));
  }
}

// Two kernels of one device that wait for each other.
bool two_meet(bool cooperative, int max_cooperative, std::uint64_t seed) {
  TestMachine machine({.seed = seed, .max_cooperative = max_cooperative});
  auto* const arrived = machine.allocate<std::uint32_t>(1);
  for (const char* const name : {"one", "other"})
    machine.launch(name, {.threads = 1, .cooperative = cooperative}, [=] {
      device::add_relaxed<Scope::kDevice>(arrived, 1u);
      while (device::load_acquire<Scope::kDevice>(arrived) != 2) device::spin();
    });
  return machine.run();
}

TEST(Limits, OneCooperativeKernelAtATimeWhereTheDriverHasItSo) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_TRUE(two_meet(true, 0, seed));
    EXPECT_TRUE(two_meet(false, 1, seed));
    EXPECT_FALSE(two_meet(true, 1, seed));
  }
}

// Each of as many kernels as there may be streams waits for all others.
TEST(Limits, StreamsWithQueuesOfTheirOwnNeverWaitForEachOther) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    TestDevice gpu({.devices = 1, .seed = seed, .queues = 32, .own_queues = true});
    auto* const arrived = gpu.allocate<std::uint32_t>(1);
    EXPECT_CUDA(calls::fill(arrived, 0, sizeof(*arrived), nullptr));
    EXPECT_CUDA(calls::synchronize_device());
    for (int stream = 0; stream < 31; ++stream)
      EXPECT_CUDA(TestDevice::launch("meets", {.threads = 1}, gpu.stream(), [arrived] {
        device::add_relaxed<Scope::kDevice>(arrived, 1u);
        while (device::load_acquire<Scope::kDevice>(arrived) != 31) device::spin();
      }));
    EXPECT_CUDA(calls::synchronize_device());
  }
}

TEST(Limits, CallsWaitWhereAQueueIsFull) {
  TestDevice gpu({.devices = 1, .queues = 2, .commands = 4});
  const GpuStream full = gpu.stream(), other = gpu.stream();
  const GpuEvent event = gpu.event();
  std::atomic<bool> over{false};
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  EXPECT_CUDA(calls::launch_host(full, wait, &over));
  std::atomic<int> made{0};
  const auto make = [&](GpuStream on, int calls) {
    for (int i = 0; i < calls; ++i, ++made)
      EXPECT_CUDA(calls::record_event(event, on, GpuEventUse::kPlain));
  };
  std::thread ahead(make, full, 10);
  while (made < 3) std::this_thread::yield();
  std::thread beside(make, other, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(made, 3) << "one function and three records are four commands";
  over = true;
  ahead.join();
  beside.join();
  EXPECT_EQ(made, 11);
  EXPECT_CUDA(calls::synchronize_device());
}

TEST(Limits, CallsInHostFunctionsAreNotPermitted) {
  TestDevice gpu({.devices = 1});
  const GpuStream stream = gpu.stream();
  GpuError seen = kGpuSuccess;
  const auto call = [](void* error) {
    void* memory = nullptr;
    *static_cast<GpuError*>(error) = calls::allocate(&memory, 16);
  };
  EXPECT_CUDA(calls::launch_host(stream, call, &seen));
  EXPECT_CUDA(calls::synchronize_stream(stream));
  EXPECT_EQ(seen, kGpuNotPermitted);
}

TEST(InjectedErrors, MemoryRunsOut) {
  TestDevice gpu({.devices = 1, .memory_mib = 64, .out_of_memory = 3});
  void* memory = nullptr;
  EXPECT_EQ(calls::allocate(&memory, 65 << 20), kGpuOutOfMemory) << "more than there is";
  EXPECT_CUDA(calls::allocate(&memory, 16));
  EXPECT_EQ(calls::allocate(&memory, 16), kGpuOutOfMemory) << "the third allocation";
  EXPECT_CUDA(calls::synchronize_device()) << "the device goes on";
}

TEST(InjectedErrors, DeviceIsLost) {
  TestDevice gpu({.devices = 2, .lost = 2});
  const GpuStream stream = gpu.stream();
  EXPECT_CUDA(TestDevice::launch("fine", {}, stream, [] {}));
  EXPECT_EQ(TestDevice::launch("lost", {}, stream, [] {}), kGpuLaunchFailure);
  EXPECT_EQ(calls::synchronize_stream(stream), kGpuLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(calls::allocate(&memory, 16), kGpuLaunchFailure) << "the error is sticky";
  EXPECT_CUDA(calls::set_device(1));
  EXPECT_CUDA(calls::allocate(&memory, 16)) << "the other device lives";
}

TEST(InjectedErrors, PeersAreOutOfReach) {
  for (const auto p2p : {Config::PeerAccess::kNone, Config::PeerAccess::kPairs}) {
    TestDevice gpu({.devices = 4, .p2p = p2p});
    int can = -1;
    EXPECT_CUDA(calls::can_access_peer(&can, 0, 1));
    EXPECT_EQ(can, p2p == Config::PeerAccess::kPairs ? 1 : 0);
    EXPECT_CUDA(calls::can_access_peer(&can, 1, 2));
    EXPECT_EQ(can, 0);
    EXPECT_EQ(calls::enable_peer_access(3), kGpuPeerUnsupported);
  }
}

TEST(Memory, MappedByHandleIsOpenOnlyToThoseAllowed) {
  TestDevice gpu({.devices = 2});
  GpuAllocation made = 0, imported = 0;
  std::size_t granule = 0;
  void *first = nullptr, *second = nullptr;
  int file = -1;
  ASSERT_CUDA(calls::vmm_granularity(&granule, 0));
  EXPECT_EQ(calls::vmm_create(&made, granule + 1, 0), kGpuInvalidValue);
  ASSERT_CUDA(calls::vmm_create(&made, granule, 0));
  ASSERT_CUDA(calls::vmm_export(&file, made));
  ASSERT_CUDA(calls::vmm_import(&imported, file));
  close(file);
  ASSERT_CUDA(calls::vmm_reserve(&first, granule, 0));
  ASSERT_CUDA(calls::vmm_reserve(&second, granule, 0));
  ASSERT_CUDA(calls::vmm_map(first, granule, made));
  ASSERT_CUDA(calls::vmm_map(second, granule, imported));
  ASSERT_CUDA(calls::vmm_allow(second, granule, 0));
  const GpuStream stream = gpu.stream();
  auto* const readable = static_cast<std::uint32_t*>(second);
  auto* const forbidden = static_cast<std::uint32_t*>(first);
  EXPECT_CUDA(
      TestDevice::launch("write", {.threads = 1}, stream, [=] { device::store(readable, 42u); }));
  EXPECT_CUDA(calls::synchronize_stream(stream));
  std::uint32_t seen = 0;
  EXPECT_EQ(calls::copy_and_wait(&seen, forbidden, sizeof(seen), GpuCopy::kAny), kGpuInvalidValue);
  ASSERT_CUDA(calls::vmm_allow(first, granule, 1));
  ASSERT_CUDA(calls::set_device(1));
  EXPECT_EQ(gpu.read(forbidden), 42u) << "both are the same memory";
  ASSERT_CUDA(calls::set_device(0));
  const ExpectViolations expected;
  EXPECT_CUDA(
      TestDevice::launch("write", {.threads = 1}, stream, [=] { device::store(forbidden, 43u); }));
  EXPECT_EQ(calls::synchronize_stream(stream), kGpuIllegalAddress);
  EXPECT_TRUE(expected.saw(Violation::kBadAccess));
}

TEST(Memory, RegisteredMemoryHasAnotherAddressOnTheDevice) {
  TestDevice gpu({.devices = 1});
  std::vector<std::uint32_t> host(100, 5);
  void* on_device = nullptr;
  EXPECT_NE(calls::host_device_pointer(&on_device, host.data()), kGpuSuccess);
  ASSERT_CUDA(calls::register_host(host.data(), 400, kHostMapped));
  EXPECT_EQ(calls::register_host(host.data(), 400, kHostMapped), kGpuHostMemoryAlreadyRegistered);
  ASSERT_CUDA(calls::host_device_pointer(&on_device, host.data() + 3));
  auto* const word = static_cast<std::uint32_t*>(on_device);
  EXPECT_NE(word, host.data() + 3);
  const GpuStream stream = gpu.stream();
  EXPECT_CUDA(TestDevice::launch("write", {.threads = 1}, stream,
                                 [=] { device::store(word, device::load(word) + 1); }));
  EXPECT_CUDA(calls::synchronize_stream(stream));
  EXPECT_EQ(host[3], 6u);
  GpuPointer info;
  EXPECT_CUDA(calls::pointer_info(&info, host.data() + 3));
  EXPECT_EQ(info.kind, GpuMemory::kHost);
  EXPECT_EQ(info.on_device, word);
  EXPECT_CUDA(calls::unregister_host(host.data()));
  EXPECT_CUDA(calls::pointer_info(&info, host.data() + 3));
  EXPECT_EQ(info.kind, GpuMemory::kUnregistered);
}

}  // namespace
}  // namespace rondo::simt
