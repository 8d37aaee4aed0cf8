// SPDX-License-Identifier: Apache-2.0
// algSelection of a call on GPUs: checked by the planner for devices, not by that for hosts.
#include <string>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 1000;

struct Answer {
  ncclResult_t result;
  std::string text;
  bool sums = false;  // every rank has the sum
};

// An all-reduce of ones by every rank, with this selection.
Answer sum_by(DeviceRanks& ranks, const char* selection, int force) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = selection;
  config.forceAlgSelection = force;
  const std::vector<float> ones(kCount, 1);
  Bytes content(kCount * sizeof(float));
  std::memcpy(content.data(), ones.data(), content.size());
  std::vector<DeviceBuffer> buffers;
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    buffers.emplace_back(content.size(), 0);
    buffers.back().put(content, 0, ranks.streams()[r]);
  }
  Answer answer{ncclSuccess, ""};
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < ranks.size() && answer.result == ncclSuccess; ++r) {
    answer.result = ncclAllReduceConfig(buffers[r].data(), buffers[r].data(), kCount, ncclFloat,
                                        ncclSum, ranks.comms()[r],
                                        static_cast<cudaStream_t>(ranks.streams()[r]), &config);
    if (answer.result != ncclSuccess) answer.text = ncclGetLastError(nullptr);
  }
  const ncclResult_t ended = ncclGroupEnd();
  if (answer.result != ncclSuccess) return answer;
  EXPECT_EQ(ended, ncclSuccess) << ncclGetLastError(nullptr);
  answer.sums = true;
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.use_device_of(r);
    buffers[r].get(ranks.streams()[r]);
    float last = 0;
    std::memcpy(&last, buffers[r].host() + content.size() - sizeof(last), sizeof(last));
    answer.sums &= last == static_cast<float>(ranks.size());
  }
  return answer;
}

void expect_refused(DeviceRanks& ranks, const char* selection) {
  const Answer answer = sum_by(ranks, selection, 1);
  EXPECT_EQ(answer.result, ncclInvalidUsage) << selection;
  EXPECT_NE(answer.text.find("leaves no algorithm that can run AllReduce"), std::string::npos)
      << answer.text;
  EXPECT_TRUE(sum_by(ranks, selection, 0).sums) << "as a wish, on the same communicator";
}

// Their connections were never made, which the planner for hosts does not know.
TEST(AlgSelection, OnOneDeviceWantsNoConnections) {
  DeviceRanks ranks(2);
  expect_refused(ranks, "ring");
  expect_refused(ranks, "recursive");
  EXPECT_TRUE(sum_by(ranks, "direct", 1).sums) << "hosts have no direct all-reduce";
  EXPECT_TRUE(sum_by(ranks, "nvls", 1).sums) << "serves few calls, so others may run";
}

TEST(AlgSelection, OnSeveralDevicesTakesWhatTheyHave) {
  int devices = 0;
  ASSERT_EQ(gpu_api()->device_count(&devices), kGpuSuccess);
  if (devices < 2) GTEST_SKIP() << "one device only";
  DeviceRanks ranks({0, 1});
  EXPECT_TRUE(sum_by(ranks, "ring", 1).sums);
  EXPECT_TRUE(sum_by(ranks, "tree", 1).sums);
  EXPECT_TRUE(sum_by(ranks, "^ring,tree", 1).sums);
  expect_refused(ranks, "hierarchical");
}

}  // namespace
}  // namespace rondo::test
