// SPDX-License-Identifier: Apache-2.0
// Planted faults in the use of streams and memory: each is detected, the correct version never.
#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

constexpr int kStreamSeeds = 200;

template <class Scenario>
int failures(const Scenario& scenario) {
  int failed = 0;
  for (int seed = 1; seed <= kStreamSeeds; ++seed) {
    TestDevice gpu({.devices = 2, .seed = static_cast<std::uint64_t>(seed)});
    failed += scenario(gpu) ? 0 : 1;
  }
  return failed;
}

// One stream writes, another reads what it wrote.
bool produce_and_consume(TestDevice& gpu, bool wait_for_the_record) {
  auto* const data = gpu.allocate<std::uint32_t>(64);
  auto* const out = gpu.allocate<std::uint32_t>(64);
  gpu.clear(data, 256);
  const GpuStream writer = gpu.stream(), reader = gpu.stream();
  const GpuEvent written = gpu.event();
  // An event that was never recorded delays no stream.
  if (!wait_for_the_record) {
    EXPECT_CUDA(calls::stream_wait_event(reader, written, GpuEventUse::kPlain));
  }
  EXPECT_CUDA(TestDevice::launch("write", {}, writer,
                                 [=] { device::store(data + device::thread_index(), 7u); }));
  EXPECT_CUDA(calls::record_event(written, writer, GpuEventUse::kPlain));
  if (wait_for_the_record) {
    EXPECT_CUDA(calls::stream_wait_event(reader, written, GpuEventUse::kPlain));
  }
  EXPECT_CUDA(TestDevice::launch("read", {}, reader, [=] {
    device::store(out + device::thread_index(), device::load(data + device::thread_index()));
  }));
  EXPECT_CUDA(calls::synchronize_stream(reader));
  for (int i = 0; i < 64; ++i)
    if (gpu.read(out + i) != 7) return false;
  return true;
}

TEST(PlantedStreamFaults, StreamThatWaitsTooEarlyIsSeen) {
  EXPECT_EQ(failures([](TestDevice& gpu) { return produce_and_consume(gpu, true); }), 0);
  EXPECT_GT(failures([](TestDevice& gpu) { return produce_and_consume(gpu, false); }),
            kStreamSeeds / 10);
}

TEST(PlantedStreamFaults, FreedMemoryInAKernelIsSeen) {
  int seen = 0;
  for (int seed = 1; seed <= kStreamSeeds; ++seed) {
    TestDevice gpu({.devices = 1, .seed = static_cast<std::uint64_t>(seed)});
    const ExpectViolations expected;
    auto* const data = gpu.allocate<std::uint32_t>(64);
    const GpuStream stream = gpu.stream();
    EXPECT_CUDA(TestDevice::launch("late", {}, stream,
                                   [=] { device::store(data + device::thread_index(), 1u); }));
    EXPECT_CUDA(calls::free_memory(data));
    const GpuError error = calls::synchronize_stream(stream);
    if (expected.saw(Violation::kUseAfterFree)) {
      ++seen;
      EXPECT_EQ(error, kGpuIllegalAddress);
      EXPECT_EQ(calls::free_memory(nullptr), kGpuSuccess);
      EXPECT_EQ(calls::query_stream(stream), kGpuIllegalAddress) << "the error must stick";
    } else {
      EXPECT_EQ(error, kGpuSuccess);
    }
  }
  EXPECT_GT(seen, kStreamSeeds / 10) << "cudaFree need not wait for kernels";
}

// A kernel's memory is freed while it runs: returns how often that is detected.
int freed_too_early(bool frees_wait, bool on_host) {
  int seen = 0;
  for (int seed = 1; seed <= kStreamSeeds; ++seed) {
    TestDevice gpu(
        {.devices = 1, .seed = static_cast<std::uint64_t>(seed), .frees_wait = frees_wait});
    const ExpectViolations expected;
    auto* const data =
        on_host ? gpu.allocate_host<std::uint32_t>(64) : gpu.allocate<std::uint32_t>(64);
    const GpuStream stream = gpu.stream();
    EXPECT_CUDA(TestDevice::launch("late", {}, stream,
                                   [=] { device::store(data + device::thread_index(), 1u); }));
    EXPECT_CUDA(on_host ? calls::free_host(data) : calls::free_memory(data));
    if (frees_wait) {
      EXPECT_CUDA(calls::query_stream(stream));
    }
    (void)calls::synchronize_stream(stream);
    seen += expected.saw(Violation::kUseAfterFree) ? 1 : 0;
  }
  return seen;
}

TEST(PlantedStreamFaults, AFreeWaitsForTheDeviceWhereItIsConfiguredTo) {
  EXPECT_EQ(freed_too_early(true, false), 0);
  EXPECT_EQ(freed_too_early(true, true), 0);
  EXPECT_GT(freed_too_early(false, false), kStreamSeeds / 10);
}

TEST(PlantedStreamFaults, EveryBadAccessOfAKernelIsSeen) {
  TestDevice gpu({.devices = 2});
  auto* const data = gpu.allocate<std::uint32_t>(10);
  EXPECT_CUDA(calls::set_device(1));
  auto* const foreign = gpu.allocate<std::uint32_t>(10);
  auto* const on_heap = new std::uint32_t(0);
  const auto expect_violation = [&](const auto& body, const std::string& what) {
    platform().devices[0].sticky = kGpuSuccess;  // of the previous case
    EXPECT_CUDA(calls::set_device(0));
    const ExpectViolations expected;
    const GpuStream stream = gpu.stream();
    EXPECT_CUDA(TestDevice::launch("bad", {.threads = 1}, stream, body));
    EXPECT_EQ(calls::synchronize_stream(stream), kGpuIllegalAddress) << what;
    ASSERT_EQ(expected.texts().size(), 1u) << what;
    EXPECT_NE(expected.texts()[0].find(what), std::string::npos) << expected.texts()[0];
  };
  expect_violation([=] { device::store(data + 10, 1u); }, "outside the 40 bytes of device memory");
  expect_violation([=] { device::store(data - 1, 1u); }, "outside the 40 bytes of device memory");
  expect_violation([=] { device::load(foreign); }, "device 0 may not touch");
  expect_violation([=] { device::store(on_heap, 1u); }, "nothing was ever allocated");
  expect_violation([=] { device::load(reinterpret_cast<std::uint64_t*>(data + 1)); },
                   "not aligned");
  expect_violation([=] { device::store_shared(0, 1u); }, "of 0 bytes of shared memory");
  delete on_heap;
}

TEST(PlantedStreamFaults, PeersMayTouchOnceTheyAreEnabled) {
  TestDevice gpu({.devices = 2});
  EXPECT_CUDA(calls::set_device(1));
  auto* const before = gpu.allocate<std::uint32_t>(1);
  EXPECT_CUDA(calls::set_device(0));
  EXPECT_CUDA(calls::enable_peer_access(1));
  EXPECT_EQ(calls::enable_peer_access(1), kGpuPeerAlreadyEnabled);
  EXPECT_CUDA(calls::set_device(1));
  auto* const after = gpu.allocate<std::uint32_t>(1);
  EXPECT_CUDA(calls::set_device(0));
  const GpuStream stream = gpu.stream();
  EXPECT_CUDA(TestDevice::launch("touch", {.threads = 1}, stream, [=] {
    device::store(before, 3u);
    device::store(after, 4u);
  }));
  EXPECT_CUDA(calls::synchronize_stream(stream));
  EXPECT_EQ(gpu.read(before), 3u);
  EXPECT_EQ(gpu.read(after), 4u);
}

TEST(PlantedStreamFaults, StoresThatLeaveTheDeviceOutsideTheRemoteDomainAreSeen) {
  TestDevice gpu({.devices = 2});
  EXPECT_CUDA(calls::enable_peer_access(1));
  auto* const own = gpu.allocate<std::uint32_t>(1);
  auto* const pinned = gpu.allocate_host<std::uint32_t>(1);
  EXPECT_CUDA(calls::set_device(1));
  auto* const peers = gpu.allocate<std::uint32_t>(1);
  EXPECT_CUDA(calls::set_device(0));
  const GpuStream stream = gpu.stream();
  const auto seen = [&](bool remote_domain, const auto& body) {
    platform().devices[0].sticky = kGpuSuccess;
    const ExpectViolations expected;
    const Shape shape{.threads = 1, .remote_domain = remote_domain};
    EXPECT_CUDA(TestDevice::launch("tells", shape, stream, body));
    (void)calls::synchronize_stream(stream);
    return expected.saw(Violation::kDomain);
  };
  const auto store = [=] { device::store(peers, 1u); };
  const auto add = [=] { device::add_relaxed<device::Scope::kSystem>(peers, 1u); };
  const auto stay = [=] {
    device::store(own, device::load(peers));
    device::store(pinned, 1u);
  };
  EXPECT_TRUE(seen(false, store));
  EXPECT_TRUE(seen(false, add));
  EXPECT_FALSE(seen(false, stay));
  EXPECT_FALSE(seen(true, store));
  EXPECT_FALSE(seen(true, add));
}

TEST(PlantedStreamFaults, ThreadThatLeavesABarrierBehindIsSeen) {
  TestDevice gpu({.devices = 1});
  const ExpectViolations expected;
  const GpuStream stream = gpu.stream();
  EXPECT_CUDA(TestDevice::launch("leaves", {}, stream, [] {
    if (device::thread_index() != 5) device::barrier();
  }));
  EXPECT_NE(calls::synchronize_stream(stream), kGpuSuccess);
  EXPECT_TRUE(expected.saw(Violation::kBarrier));
}

// Two streams of one capture record an event for work that follows the graph.
bool record_on_two_streams(TestDevice& gpu, bool second_follows_the_record) {
  const ExpectViolations expected;
  const GpuStream one = gpu.stream(), other = gpu.stream();
  const GpuEvent newest = gpu.event(), forked = gpu.event(), joined = gpu.event();
  EXPECT_CUDA(calls::begin_capture(one, GpuCaptureMode::kRelaxed));
  if (second_follows_the_record) {
    EXPECT_CUDA(calls::record_event(newest, one, GpuEventUse::kExternal));
  }
  EXPECT_CUDA(calls::record_event(forked, one, GpuEventUse::kPlain));
  EXPECT_CUDA(calls::stream_wait_event(other, forked, GpuEventUse::kPlain));
  if (!second_follows_the_record) {
    EXPECT_CUDA(calls::record_event(newest, one, GpuEventUse::kExternal));
  }
  EXPECT_CUDA(calls::record_event(newest, other, GpuEventUse::kExternal));
  EXPECT_CUDA(calls::record_event(joined, other, GpuEventUse::kPlain));
  EXPECT_CUDA(calls::stream_wait_event(one, joined, GpuEventUse::kPlain));
  void* graph = nullptr;
  EXPECT_CUDA(calls::end_capture(one, &graph));
  EXPECT_CUDA(calls::destroy_graph(graph));
  return !expected.saw(Violation::kRecords);
}

TEST(PlantedStreamFaults, RecordsOfOneEventInNoOrderAreSeen) {
  EXPECT_EQ(failures([](TestDevice& gpu) { return record_on_two_streams(gpu, true); }), 0);
  EXPECT_EQ(failures([](TestDevice& gpu) { return record_on_two_streams(gpu, false); }),
            kStreamSeeds);
}

// A kernel is launched while another kernel on the device waits for work that follows the launch.
bool launches_well_beside_one_that_waits(bool loaded) {
  TestDevice gpu({.devices = 1});
  const ExpectViolations expected;
  struct Words {
    std::uint32_t begun, flag;
  };
  auto* const words = gpu.allocate_host<Words>(1);
  *words = {0, 0};
  const GpuStream one = gpu.stream(), other = gpu.stream();
  const auto second = [=] { device::store(&words->begun, 2u); };
  if (loaded) {
    EXPECT_CUDA(calls::load_kernel(TestDevice::kernel("second", second)));
  }
  EXPECT_CUDA(TestDevice::launch("waits", {.threads = 1}, one, [=] {
    device::store_relaxed<device::Scope::kSystem>(&words->begun, 1u);
    while (device::load_relaxed<device::Scope::kSystem>(&words->flag) == 0) device::spin();
  }));
  Engine& engine = platform().engine;
  {
    std::unique_lock lock(engine.mutex());
    int turns = 0;
    engine.wait(lock, [&] { return words->begun != 0 && ++turns > 100; });
  }
  EXPECT_CUDA(TestDevice::launch("second", {.threads = 1, .lazy = true}, other, second));
  words->flag = 1;
  EXPECT_CUDA(calls::synchronize_device());
  return !expected.saw(Violation::kLoading);
}

TEST(PlantedStreamFaults, LoadingBesideAKernelThatWaitsIsSeen) {
  EXPECT_TRUE(launches_well_beside_one_that_waits(true));
  EXPECT_FALSE(launches_well_beside_one_that_waits(false));
}

TEST(PlantedStreamFaults, ViolationEndsTheProcessAndPrintsHowToRepeatIt) {
  EXPECT_DEATH(
      {
        TestDevice gpu({.devices = 2, .seed = 77});
        const GpuStream stream = gpu.stream();
        auto* const data = gpu.allocate<std::uint32_t>(1);
        TestDevice::launch("oversteps", {.threads = 2}, stream,
                           [=] { device::store(data + device::thread_index(), 1u); });
        calls::synchronize_stream(stream);
      },
      "bad access: kernel oversteps, device 0, CTA 0 of 1, thread 1 of 2, writes 4 bytes.*"
      "repeat with: RONDO_SIMT_DEVICES=2 RONDO_SIMT_SEED=77 RONDO_SIMT=mode=seed");
}

TEST(PlantedStreamFaults, HostThatFollowsADevicePointerDies) {
  EXPECT_DEATH(
      {
        TestDevice gpu({.devices = 1});
        volatile std::uint32_t* const data = gpu.allocate<std::uint32_t>(1);
        data[0] = 1;
      },
      "");
}

}  // namespace
}  // namespace rondo::simt
