// SPDX-License-Identifier: Apache-2.0
// Planted faults in the use of pools (cudaMallocAsync): each is detected, and the correct version
// is never reported.
#include "tests/simt/device_fixture.h"

namespace rondo::simt {
namespace {

constexpr int kPoolSeeds = 100;

std::uint32_t* from_pool(GpuStream stream) {
  void* pointer = nullptr;
  EXPECT_CUDA(calls::pool_allocate(&pointer, 64 * sizeof(std::uint32_t), stream));
  return static_cast<std::uint32_t*>(pointer);
}

GpuError touch(std::uint32_t* data, GpuStream stream) {
  EXPECT_CUDA(TestDevice::launch("touch", {}, stream,
                                 [=] { device::store(data + device::thread_index(), 7u); }));
  return calls::synchronize_stream(stream);
}

TEST(PlantedPoolFaults, AKernelOfADeviceThatWasNotLetInIsSeen) {
  TestDevice gpu({.devices = 2});
  EXPECT_CUDA(calls::enable_peer_access(1));
  EXPECT_CUDA(calls::set_device(1));
  const GpuStream owners = gpu.stream();
  std::uint32_t* const data = from_pool(owners);
  EXPECT_CUDA(calls::synchronize_stream(owners));
  EXPECT_CUDA(touch(data, owners));
  GpuPointer info;
  EXPECT_CUDA(calls::pointer_info(&info, data));
  EXPECT_TRUE(info.own_access);
  GpuIpcHandle handle;
  EXPECT_EQ(calls::ipc_export(&handle, data), kGpuInvalidValue);

  EXPECT_CUDA(calls::set_device(0));
  const GpuStream others = gpu.stream();
  for (const bool let_in : {true, false}) {
    EXPECT_CUDA(calls::pool_allow(1, 0, let_in));
    bool may = !let_in;
    EXPECT_CUDA(calls::may_access(&may, data, 0));
    EXPECT_EQ(may, let_in);
    const ExpectViolations expected;
    EXPECT_EQ(touch(data, others), let_in ? kGpuSuccess : kGpuIllegalAddress);
    EXPECT_EQ(expected.saw(Violation::kBadAccess), !let_in);
  }
}

enum class PoolMistake { kNone, kBeforeTheAllocation, kAfterTheFree };

// One stream allocates and frees; another one uses the memory in between.
int seen(PoolMistake mistake) {
  int times = 0;
  for (int seed = 1; seed <= kPoolSeeds; ++seed) {
    TestDevice gpu({.devices = 1, .seed = static_cast<std::uint64_t>(seed)});
    const ExpectViolations expected;
    const GpuStream owner = gpu.stream(), user = gpu.stream();
    const GpuEvent given = gpu.event(), used = gpu.event();
    std::uint32_t* const data = from_pool(owner);
    EXPECT_CUDA(calls::record_event(given, owner, GpuEventUse::kPlain));
    if (mistake != PoolMistake::kBeforeTheAllocation) {
      EXPECT_CUDA(calls::stream_wait_event(user, given, GpuEventUse::kPlain));
    }
    EXPECT_CUDA(TestDevice::launch("use", {}, user,
                                   [=] { device::store(data + device::thread_index(), 7u); }));
    EXPECT_CUDA(calls::record_event(used, user, GpuEventUse::kPlain));
    if (mistake != PoolMistake::kAfterTheFree) {
      EXPECT_CUDA(calls::stream_wait_event(owner, used, GpuEventUse::kPlain));
    }
    EXPECT_CUDA(calls::pool_free(data, owner));
    (void)calls::synchronize_device();
    const bool caught = expected.saw(
        mistake == PoolMistake::kAfterTheFree ? Violation::kUseAfterFree : Violation::kBadAccess);
    EXPECT_EQ(caught, !expected.texts().empty());
    times += caught ? 1 : 0;
  }
  return times;
}

TEST(PlantedPoolFaults, UseThatStreamsDoNotOrderIsSeen) {
  EXPECT_EQ(seen(PoolMistake::kNone), 0);
  EXPECT_GT(seen(PoolMistake::kBeforeTheAllocation), kPoolSeeds / 10);
  EXPECT_GT(seen(PoolMistake::kAfterTheFree), kPoolSeeds / 10);
}

TEST(PlantedPoolFaults, WhatIsFreedCountsNoMore) {
  TestDevice gpu({.devices = 1});
  const GpuStream stream = gpu.stream();
  std::size_t before = 0, during = 0, after = 0, total = 0;
  EXPECT_CUDA(calls::memory_info(&before, &total));
  std::uint32_t* const data = from_pool(stream);
  EXPECT_CUDA(calls::memory_info(&during, &total));
  EXPECT_CUDA(calls::pool_free(data, stream));
  EXPECT_CUDA(calls::synchronize_stream(stream));
  EXPECT_CUDA(calls::memory_info(&after, &total));
  EXPECT_LT(during, before);
  EXPECT_EQ(after, before);
  EXPECT_EQ(calls::pool_free(data, stream), kGpuInvalidValue);
}

}  // namespace
}  // namespace rondo::simt
