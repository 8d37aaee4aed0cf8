// SPDX-License-Identifier: Apache-2.0
// Calls of one process's GPUs with a tuner plugin: its choice is what runs.
#include <string>

#include "tests/gpu/device_case.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/environment.h"
#include "tests/support/tuner/tuners.h"

namespace rondo::test {
namespace {

int device_count() {
  int count = 0;
  EXPECT_EQ(gpu_api()->device_count(&count), kGpuSuccess);
  return count;
}

class TunedGpus : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (device_count() < 3) GTEST_SKIP() << "too few GPUs";
    logs_.use(0);
    setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
    log::reset();
  }
  void TearDown() override {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
    log::reset();
  }
  int lines_with(const std::string& what) const {
    std::string last;
    return logs_.count(0, what, &last);
  }

  const WithEnvironment plugin_{"NCCL_TUNER_PLUGIN", tuner_file(GetParam())};
  const TunerCounts counts_{GetParam()};
  RankLogs logs_;
};
INSTANTIATE_TEST_SUITE_P(Every, TunedGpus, testing::Values("2", "3", "4", "5", "6"),
                         [](const auto& info) { return std::string("V") + info.param; });

TEST_P(TunedGpus, RunWhatThePluginChooses) {
  {
    const WithEnvironment words("RONDO_TEST_TUNER",
                                "algorithm=0 protocol=0 channels=2 max_bytes=65536");
    DeviceRanks ranks({0, 1, 2});
    EXPECT_EQ(counts_.of("contexts"), 3) << "one a rank";
    const long asked = counts_.of("asks");
    for (int i = 0; i < 2; ++i)
      for (const std::size_t count : {1000, 50'000})
        for (const Collective which : {Collective::kAllReduce, Collective::kBroadcast})
          run_grouped(ranks, {which, DataType::kFloat32, RedOp::kSum, 3, 1, count, 7}, false, 0);
    EXPECT_EQ(counts_.of("asks"), asked) << "calls do not ask";
  }
  EXPECT_EQ(lines_with("AllReduce(count 1000, float32, sum): tree by LL on "), 1);
  EXPECT_EQ(lines_with("Broadcast(count 1000, float32, root 1): tree by LL on "), 1);
  EXPECT_EQ(lines_with("chosen by the tuner plugin"), 2) << "larger calls are Rondo's";
  EXPECT_EQ(lines_with("AllReduce(count 50000"), 1);
  EXPECT_EQ(counts_.of("contexts"), 0) << "ended with the communicator";
  EXPECT_EQ(counts_.of("complaints"), 0);
}

TEST_P(TunedGpus, AreRefusedWhereRanksAnswerDifferently) {
  const WithEnvironment words("RONDO_TEST_TUNER", "algorithm=0 protocol=0 alternate=1");
  const int devices[] = {0, 1, 2};
  ncclComm_t comms[3] = {};
  EXPECT_EQ(ncclCommInitAll(comms, 3, devices), ncclInvalidUsage);
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("the tuner plugin of rank "), std::string::npos) << text;
  EXPECT_NE(text.find(" for AllReduce of 4 bytes, not "), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL_TUNER_PLUGIN=none"), std::string::npos) << text;
  EXPECT_EQ(counts_.of("contexts"), 0);
}

TEST_P(TunedGpus, GetTheErrorOfAPluginThatDoesNotStart) {
  const WithEnvironment words("RONDO_TEST_TUNER", "fail=init");
  const int devices[] = {0, 1};
  ncclComm_t comms[2] = {};
  EXPECT_NE(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("init() gave ncclSystemError (2)"), std::string::npos) << text;
}

TEST_P(TunedGpus, LogOnceWhatCannotRun) {
  const WithEnvironment words("RONDO_TEST_TUNER", "algorithm=6 protocol=2");
  {
    DeviceRanks ranks({0, 1, 2});
    run_grouped(ranks, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 3, 0, 1000, 7},
                false, 0);
  }
  EXPECT_EQ(lines_with("NCCL WARN plugin 'RondoTest'"), 1);
  EXPECT_EQ(lines_with("it names PAT by Simple, which cannot run here"), 1);
  EXPECT_EQ(lines_with("chosen by the tuner plugin"), 0);
}

// Children query it separately; for ranks that share a GPU there is nothing to query.
TEST_P(TunedGpus, HaveATunerForEachCommunicatorWithRings) {
  const WithEnvironment words("RONDO_TEST_TUNER", "");
  const long before = counts_.of("inits");
  {
    DeviceRanks ranks({0, 0});
    EXPECT_EQ(counts_.of("inits"), before);
  }
  DeviceRanks ranks({0, 1});
  EXPECT_EQ(counts_.of("inits") - before, 2);
  ncclComm_t children[2] = {};
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) NCCL_OK(ncclCommSplit(ranks[r].comm, 0, r, &children[r], nullptr));
  NCCL_OK(ncclGroupEnd());
  EXPECT_EQ(counts_.of("inits") - before, 4);
  for (ncclComm_t child : children) NCCL_OK(ncclCommDestroy(child));
  EXPECT_EQ(counts_.of("contexts"), 2);
}

TEST(TunedHosts, NeverAskThePlugin) {
  const WithEnvironment plugin("NCCL_TUNER_PLUGIN", "/nowhere/tuner.so");
  const WithEnvironment device("RONDO_DEVICE", "host");
  ncclComm_t comms[2] = {};
  NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
  for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace rondo::test
