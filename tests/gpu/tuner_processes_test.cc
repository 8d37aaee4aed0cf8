// SPDX-License-Identifier: Apache-2.0
// Tuner plugins of ranks in processes and on their own hosts: the common choice runs; ranks that
// choose differently are refused by name.
#include <string>

#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/tuner/tuners.h"

namespace rondo::test {
namespace {

const NamedLayout kTunerLayouts[] = {
    {"processes", as_processes(3, Gpus::kOneEach)},
    {"two_of_two_hosts", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
};

class TunedProcesses : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  }
  static Job job() { return GetParam().layout.under({{"NCCL_TUNER_PLUGIN", tuner_file("5")}}); }
  // The error that ranks get if they join with these variables, each with its own. of_one: only
  // this rank has detected it, with this status; the others get it from that rank.
  static void expect_refused(const std::function<void(int rank)>& prepare, StatusCode status,
                             const std::string& part, int of_one = -1) {
    Job job = TunedProcesses::job();
    job.create = false;
    RankProcesses processes(job, [&](NcclRank& seat) {
      prepare(seat.rank);
      ASSERT_NO_FATAL_FAILURE(seat.prepare());
      ncclComm_t made = nullptr;
      const ncclResult_t result = ncclCommInitRank(&made, seat.size, seat.id(), seat.rank);
      seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(nullptr)});
    });
    ASSERT_TRUE(processes.wait_reports());
    for (int r = 0; r < processes.size(); ++r) {
      const bool receives = of_one >= 0 && r != of_one;
      EXPECT_EQ(processes.status(r), receives ? StatusCode::kRemoteError : status)
          << processes.text(r);
      EXPECT_NE(processes.text(r).find(part), std::string::npos) << processes.text(r);
    }
    processes.wait_exits();
  }
};
INSTANTIATE_TEST_SUITE_P(Of, TunedProcesses, testing::ValuesIn(kTunerLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(TunedProcesses, RunWhatThePluginChooses) {
  const RankLogs logs;
  const Environment more = {{"RONDO_TEST_TUNER", "algorithm=0 protocol=2 channels=1"},
                            {"NCCL_DEBUG", "INFO"},
                            {"NCCL_DEBUG_SUBSYS", "TUNING"},
                            {"NCCL_DEBUG_FILE", logs.file(0)}};
  Job tuned = job();
  tuned.environment.insert(tuned.environment.end(), more.begin(), more.end());
  run_job(tuned, [](NcclRank& seat) {
    for (const std::size_t count : {100, 20'000})
      for (const Collective which : {Collective::kAllReduce, Collective::kAllGather})
        run_case(seat, {which, DataType::kInt32, RedOp::kSum, seat.size, 0, count, 7}, {});
    const TunerCounts counts("5");
    EXPECT_EQ(counts.of("contexts"), 1);
    EXPECT_EQ(counts.of("complaints"), 0);
    seat.leave();
    EXPECT_EQ(counts.of("contexts"), 0);
  });
  std::string last;
  for (const char* count : {"100", "20000"}) {
    const std::string call = std::string("AllReduce(count ") + count + ", int32, sum): ";
    EXPECT_EQ(logs.count(0, call, &last), 1) << "by rank 0 alone";
    EXPECT_NE(last.find("tree by Simple on 1 channel, predicted "), std::string::npos) << last;
    EXPECT_NE(last.find("chosen by the tuner plugin"), std::string::npos) << last;
  }
  // It has no tree.
  EXPECT_EQ(logs.count(0, "AllGather(count 100, int32): ", &last), 1);
  EXPECT_EQ(last.find("chosen by the tuner plugin"), std::string::npos) << last;
}

TEST_P(TunedProcesses, ThatChooseDifferentlyAreNamed) {
  expect_refused(
      [](int rank) {
        const char* const words = rank == 2 ? "algorithm=1 protocol=2" : "algorithm=0 protocol=2";
        setenv("RONDO_TEST_TUNER", words, 1);
      },
      StatusCode::kInvalidUsage, "the tuner plugin of rank 2 (");
}

TEST_P(TunedProcesses, WithoutThePluginAreNamed) {
  expect_refused(
      [](int rank) {
        if (rank == 1) setenv("NCCL_TUNER_PLUGIN", "none", 1);
      },
      StatusCode::kInvalidUsage,
      "the tuner plugin of rank 1 is none, that of rank 0 'RondoTest v5': give all ranks");
}

TEST_P(TunedProcesses, WhosePluginIsAbsentAreNamed) {
  expect_refused(
      [](int rank) {
        if (rank == 1) setenv("NCCL_TUNER_PLUGIN", tuner_file("7").c_str(), 1);
      },
      StatusCode::kInvalidUsage, "rondotest7.so is not a tuner plugin", 1);
}

TEST_P(TunedProcesses, WhosePluginDoesNotStartAreNamed) {
  expect_refused(
      [](int rank) {
        if (rank == 1) setenv("RONDO_TEST_TUNER", "fail=init", 1);
      },
      StatusCode::kSystemError, "init() gave ncclSystemError (2)", 1);
}

}  // namespace
}  // namespace rondo::test
