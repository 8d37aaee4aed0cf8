// SPDX-License-Identifier: Apache-2.0
// Planted faults of threads: a new thread has device 0, and no context before its first runtime
// call; threads of the library that others wait for have a list of calls.
#include <pthread.h>

#include <string>
#include <thread>

#include "tests/simt/device/thread_calls.h"
#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

TEST(PlantedContextFaults, StreamOfADeviceThatIsNotTheThreadsIsRefused) {
  TestDevice gpu({.devices = 2});
  EXPECT_CUDA(calls::set_device(1));
  auto* const data = gpu.allocate<std::uint32_t>(64);
  const GpuStream stream = gpu.stream();
  const auto use = [=] {
    const GpuError filled = calls::fill(data, 0, 256, stream);
    const GpuError launched = TestDevice::launch(
        "write", {}, stream, [=] { device::store(data + device::thread_index(), 7u); });
    EXPECT_EQ(filled, launched);
    return launched;
  };
  EXPECT_CUDA(use());
  GpuError of_another_thread = kGpuSuccess, of_one_that_binds = kGpuInvalidHandle;
  std::thread([&] {
    of_another_thread = use();  // bound to device 0, as is every new thread
    EXPECT_CUDA(calls::set_device(1));
    of_one_that_binds = use();
  }).join();
  EXPECT_EQ(of_another_thread, kGpuInvalidHandle);
  EXPECT_EQ(of_one_that_binds, kGpuSuccess);
  EXPECT_CUDA(calls::synchronize_device());
}

TEST(PlantedContextFaults, DriverCallOfAThreadWithoutAContextIsSeen) {
  TestDevice gpu({.devices = 1});
  auto* const data = gpu.allocate<std::uint32_t>(1);
  const GpuStream stream = gpu.stream();
  const auto seen = [&](const auto& call, bool binds) {
    const ExpectViolations expected;
    std::thread([&] {
      if (binds) {
        EXPECT_CUDA(calls::set_device(0));
      }
      EXPECT_EQ(call() == kGpuSuccess, binds);
    }).join();
    return expected.saw(Violation::kContext);
  };
  for (const bool binds : {true, false}) {
    EXPECT_EQ(seen([&] { return calls::stream_write32(stream, data, 1); }, binds), !binds);
    EXPECT_EQ(seen([&] { return calls::stream_wait32(stream, data, 1, GpuWait::kEqual); }, binds),
              !binds);
    EXPECT_EQ(seen([&] { return calls::address_range(nullptr, nullptr, data); }, binds), !binds);
    bool may = false;
    EXPECT_EQ(seen([&] { return calls::may_access(&may, data, 0); }, binds), !binds);
  }
}

// By the name that base/thread.h gives it: as much of it as the system keeps.
TEST(PlantedThreadFaults, CallThatTheListOfTheThreadDoesNotHaveIsSeen) {
  const auto seen = [](const std::string& name, const char* call) {
    const ExpectViolations expected;
    std::thread([&] {
      EXPECT_EQ(pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()), 0);
      check_thread(call);
    }).join();
    return expected.saw(Violation::kThread);
  };
  for (const char* const watched : {"the watch of a GPU", "a GPU's proxy"}) {
    for (const char* const waits : {"register_host", "allocate", "free_memory", "launch", "vmm"})
      EXPECT_TRUE(seen(watched, waits)) << watched << ", " << waits;
    for (const char* const does_not : {"get_device", "vmm_map", "vmm_create"})
      EXPECT_FALSE(seen(watched, does_not)) << watched << ", " << does_not;
  }
  EXPECT_FALSE(seen("freeing memory of a GPU", "free_memory"));
}

}  // namespace
}  // namespace rondo::simt
