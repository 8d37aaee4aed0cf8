// SPDX-License-Identifier: Apache-2.0
// Calls through multicast memory (NVLS), requested by NCCL_ALGO or NCCL_NVLS_ENABLE: against the
// reference, replayed, and done by other paths if the devices do not support it.
#include <cstdlib>
#include <string>

#include "tests/gpu/device_case.h"
#include "tests/gpu/multicast_accesses.h"

namespace rondo::test {
namespace {

bool devices_can() {
  int can = 0;
  EXPECT_EQ(gpu_api()->attribute(&can, GpuAttribute::kMulticast, 0), kGpuSuccess);
  return can != 0;
}

int device_count() {
  int count = 0;
  EXPECT_EQ(gpu_api()->device_count(&count), kGpuSuccess);
  return count;
}

std::vector<int> one_a_device(int ranks) {
  std::vector<int> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(r);
  return devices;
}

class MulticastCalls : public testing::Test {
 protected:
  void SetUp() override {
    setenv("NCCL_NVLS_ENABLE", "1", 1);
    if (device_count() < 2) GTEST_SKIP() << "one device only";
  }
  void TearDown() override {
    unsetenv("NCCL_NVLS_ENABLE");
    unsetenv("NCCL_ALGO");
  }
  // True if a call of a new communicator used multicast memory.
  static bool uses_it(DataType type, RedOp op) {
    DeviceRanks ranks(one_a_device(2));
    const std::uint64_t before = multicast_accesses();
    run_grouped(ranks, {Collective::kAllReduce, type, op, 2, 0, 100, 5}, false, 0);
    return multicast_accesses() > before;
  }
};

TEST_F(MulticastCalls, EqualTheReferenceForOddSizesAndAlignments) {
  unsigned seed = 40;
  for (const int n : {2, 3, 5, 8}) {
    if (n > device_count()) break;
    DeviceRanks ranks(one_a_device(n));
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather})
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                                  DataType::kInt8, DataType::kFloat64})
        for (const std::size_t count : {1, 37, 3001}) {
          ++seed;
          run_grouped(ranks, {collective, type, RedOp::kSum, n, 0, count, seed}, seed % 2 == 0,
                      seed % 4 == 0 ? size_of(type) : 0);
          if (HasFatalFailure()) return;
        }
  }
}

// A CTA's part is larger than its slots.
TEST_F(MulticastCalls, GoRoundManyTimesMoreThanThereAreSlots) {
  setenv("NCCL_MAX_CTAS", "1", 1);
  DeviceRanks ranks(one_a_device(2));
  unsetenv("NCCL_MAX_CTAS");
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather})
    run_grouped(ranks, {collective, DataType::kFloat32, RedOp::kSum, 2, 0, 350'001, 9}, true, 0);
}

TEST_F(MulticastCalls, AreThoseThatAreAskedForAndWhoseBitsAreRight) {
  if (!kAccessesAreCounted || !devices_can())
    GTEST_SKIP() << "no multicast memory, or nobody counts";
  EXPECT_TRUE(uses_it(DataType::kFloat32, RedOp::kSum));
  EXPECT_TRUE(uses_it(DataType::kBfloat16, RedOp::kSum));
  EXPECT_FALSE(uses_it(DataType::kFloat32, RedOp::kMax));
  EXPECT_FALSE(uses_it(DataType::kInt32, RedOp::kSum));
  {
    const WithEnvironment reproducible("RONDO_REPRODUCIBLE", "1");
    EXPECT_FALSE(uses_it(DataType::kFloat32, RedOp::kSum));
  }
  setenv("NCCL_ALGO", "ring", 1);
  EXPECT_FALSE(uses_it(DataType::kFloat32, RedOp::kSum));
  setenv("NCCL_ALGO", "allreduce:NVLS", 1);
  EXPECT_TRUE(uses_it(DataType::kFloat32, RedOp::kSum));
  unsetenv("NCCL_NVLS_ENABLE");
  EXPECT_TRUE(uses_it(DataType::kFloat32, RedOp::kSum));
  setenv("NCCL_ALGO", "^nvls", 1);
  EXPECT_FALSE(uses_it(DataType::kFloat32, RedOp::kSum));
  unsetenv("NCCL_ALGO");
  EXPECT_FALSE(uses_it(DataType::kFloat32, RedOp::kSum));
}

TEST_F(MulticastCalls, AreNotThoseWhoseAlgSelectionNamesOthers) {
  if (!kAccessesAreCounted || !devices_can())
    GTEST_SKIP() << "no multicast memory, or nobody counts";
  DeviceRanks ranks(one_a_device(2));
  const auto uses_it_by = [&](const char* selection) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.algSelection = selection;
    std::vector<DeviceBuffer> x;
    const std::uint64_t before = multicast_accesses();
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < ranks.size(); ++r) {
      ranks.use_device_of(r);
      x.emplace_back(400, 0);
      EXPECT_EQ(ncclAllReduceConfig(x[r].data(), x[r].data(), 100, ncclFloat, ncclSum,
                                    ranks.comms()[r], ranks.streams()[r], &config),
                ncclSuccess)
          << ncclGetLastError(nullptr);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    ranks.synchronize();
    return multicast_accesses() > before;
  };
  EXPECT_TRUE(uses_it_by("nvls"));
  EXPECT_TRUE(uses_it_by("^ring"));
  EXPECT_FALSE(uses_it_by("ring"));
  EXPECT_FALSE(uses_it_by("^nvls"));
}

TEST_F(MulticastCalls, GoOtherWaysWhereDevicesHaveNone) {
  if (!kAccessesAreCounted || devices_can()) GTEST_SKIP() << "they have (RONDO_SIMT=multicast=0)";
  EXPECT_FALSE(uses_it(DataType::kFloat32, RedOp::kSum));
}

}  // namespace
}  // namespace rondo::test
