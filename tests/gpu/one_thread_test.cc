// SPDX-License-Identifier: Apache-2.0
// One thread makes the calls of several ranks that have a GPU each. Each rank launches its own
// kernel, which waits for kernels that the thread launches later, so no call may wait on the host
// for another rank of the thread.
#include "api/rondo.h"
#include "tests/gpu/device_case.h"
#include "transport/cuda/device.h"

namespace rondo::test {
namespace {

constexpr int kThreadRanks = 2;
constexpr std::size_t kElements = 1000;

class OneThread : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus_there() < kThreadRanks) GTEST_SKIP() << "too few GPUs";
    ranks.emplace(std::vector<int>{0, 1});
    others.emplace(std::vector<int>{0, 1});
    for (int r = 0; r < kThreadRanks; ++r) {
      ranks->use_device_of(r);
      buffers.emplace_back(kElements * sizeof(std::int32_t), 0);
      Bytes ones(kElements * sizeof(std::int32_t));
      for (std::size_t i = 0; i < kElements; ++i) ones[i * sizeof(std::int32_t)] = std::byte{1};
      buffers[r].put(ones, 0, (*ranks)[r].stream);
    }
    ranks->use_device_of(0);
  }
  void TearDown() override { gpu_api()->set_device(0); }

  ncclResult_t sum(DeviceRanks& of, int r, std::size_t count = kElements,
                   ncclRedOp_t operation = ncclSum) {
    return ncclAllReduce(buffers[r].data(), buffers[r].data(), count, ncclInt32, operation,
                         of[r].comm, (*ranks)[r].stream);
  }
  void expect_all(std::int32_t wanted) {
    for (int r = 0; r < kThreadRanks; ++r) {
      buffers[r].get((*ranks)[r].stream);
      for (std::size_t i = 0; i < kElements; ++i) {
        std::int32_t got = 0;
        std::memcpy(&got, buffers[r].host() + i * sizeof(got), sizeof(got));
        ASSERT_EQ(got, wanted) << "rank " << r << " element " << i;
      }
    }
  }

  // A wait that depends on a later call of the thread fails after this time.
  const WithEnvironment timeout{"RONDO_TIMEOUT", "120"};
  std::optional<DeviceRanks> ranks, others;
  std::vector<DeviceBuffer> buffers;
};

TEST_F(OneThread, MakesAllCallsOfOneRankBeforeThoseOfTheNext) {
  if (gpu::blocking_launches()) GTEST_SKIP() << "the first launch would wait for the second";
  constexpr int kCalls = 5;
  for (int r = 0; r < kThreadRanks; ++r)
    for (int i = 0; i < kCalls; ++i) NCCL_OK(sum(*ranks, r));
  expect_all(1 << kCalls);
}

// More than a rank may be ahead of others. The messages of the group run after its collectives.
TEST_F(OneThread, PutsHundredsOfCallsAndMessagesIntoOneGroup) {
  constexpr int kSums = 10, kMaxima = 300;
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kThreadRanks; ++r) {
    const std::size_t half = kElements / 2;
    auto* const data = reinterpret_cast<std::int32_t*>(buffers[r].data());
    NCCL_OK(ncclSend(data, half, ncclInt32, 1 - r, (*ranks)[r].comm, (*ranks)[r].stream));
    NCCL_OK(ncclRecv(data + half, half, ncclInt32, 1 - r, (*ranks)[r].comm, (*ranks)[r].stream));
    for (int i = 0; i < kSums; ++i) NCCL_OK(sum(*ranks, r, kElements / 2));
    for (int i = 0; i < kMaxima; ++i) NCCL_OK(sum(*ranks, r, kElements / 2, ncclMax));
  }
  NCCL_OK(ncclGroupEnd());
  expect_all(1 << kSums);
}

// Both GPUs run the two communicators' kernels in the same order, so none waits behind one that
// waits for it.
TEST_F(OneThread, NamesTwoCommunicatorsInAnyOrder) {
  NCCL_OK(ncclGroupStart());
  NCCL_OK(sum(*ranks, 0));
  NCCL_OK(sum(*others, 0));
  NCCL_OK(sum(*others, 1));
  NCCL_OK(sum(*ranks, 1));
  NCCL_OK(ncclGroupEnd());
  expect_all(4);
}

TEST_F(OneThread, SuspendsAndResumesOneRankAfterTheOther) {
  const auto sums = [&] {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kThreadRanks; ++r) NCCL_OK(sum(*ranks, r));
    NCCL_OK(ncclGroupEnd());
  };
  sums();
  for (int r = 0; r < kThreadRanks; ++r)
    NCCL_OK(ncclCommSuspend((*ranks)[r].comm, NCCL_SUSPEND_MEM));
  for (int r = 0; r < kThreadRanks; ++r) NCCL_OK(ncclCommResume((*ranks)[r].comm));
  sums();
  expect_all(4);
}

// Of two leaves a rank, each the rank's number; a plain sum before and after.
TEST_F(OneThread, MakesOrderedCallsInAGroup) {
  std::vector<DeviceBuffer> sums;
  for (int r = 0; r < kThreadRanks; ++r) {
    ranks->use_device_of(r);
    sums.emplace_back(kElements / 2 * sizeof(std::int32_t), 0).put({}, 0, (*ranks)[r].stream);
  }
  ranks->use_device_of(0);
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kThreadRanks; ++r) {
    NCCL_OK(sum(*ranks, r));
    NCCL_OK(rondoAllReduceOrdered(buffers[r].data(), sums[r].data(), kElements / 2, ncclInt32,
                                  ncclSum, 4, 2 * r, 2, rondoRoundNode, (*ranks)[r].comm,
                                  static_cast<cudaStream_t>((*ranks)[r].stream)));
    NCCL_OK(sum(*ranks, r));
  }
  NCCL_OK(ncclGroupEnd());
  expect_all(4);
  for (int r = 0; r < kThreadRanks; ++r) {
    sums[r].get((*ranks)[r].stream);
    for (std::size_t i = 0; i < kElements / 2; ++i) {
      std::int32_t got = 0;
      std::memcpy(&got, sums[r].host() + i * sizeof(got), sizeof(got));
      ASSERT_EQ(got, 8) << "rank " << r << " element " << i;
    }
  }
}

}  // namespace
}  // namespace rondo::test
