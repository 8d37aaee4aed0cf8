// SPDX-License-Identifier: Apache-2.0
// Processes that share some of several GPUs: the host does every collective and message.
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

namespace rondo::test {
namespace {

const NamedLayout kMixedLayouts[] = {
    {"two_and_one", {{{0}, {0}, {1}}}},       {"one_and_two", {{{0}, {1}, {1}}}},
    {"blocks", {{{0}, {0}, {1}, {1}}}},       {"in_turns", {{{0}, {1}, {0}, {1}}}},
    {"threads_in_turns", {{{0, 1}, {1, 0}}}}, {"threads_on_three", {{{0, 2}, {2}, {1, 2}}}},
};
struct SumOrder {
  const char* name;
  const char* reproducible;  // RONDO_REPRODUCIBLE
};
constexpr SumOrder kSumOrders[] = {{"sums", "0"}, {"sums_in_tree_order", "1"}};

class Mixed : public testing::TestWithParam<std::tuple<NamedLayout, SumOrder>> {
 protected:
  // Small staging, so that calls take several steps.
  static Layout layout() {
    return std::get<NamedLayout>(GetParam())
        .layout.under({{"RONDO_REPRODUCIBLE", std::get<SumOrder>(GetParam()).reproducible},
                       {"RONDO_GPU_STAGING", "64K"}});
  }
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, Mixed,
                         testing::Combine(testing::ValuesIn(kMixedLayouts),
                                          testing::ValuesIn(kSumOrders)),
                         [](const auto& info) {
                           return std::string(std::get<NamedLayout>(info.param).name) + "_" +
                                  std::get<SumOrder>(info.param).name;
                         });

TEST_P(Mixed, EqualsTheReferenceForOddSizesAndAlignments) {
  run_job(layout(), [](NcclRank& seat) {
    run_every_collective(seat, {0, 1, 37, 3001, 9000},
                         {DataType::kUint8, DataType::kFloat64, DataType::kFloat32},
                         [](int, int number) { return number % 3 == 0; });
  });
}

TEST_P(Mixed, PassesMessagesRoundARing) {
  run_job(layout(), [](NcclRank& seat) { pass_round_a_ring(seat, {0, 1, 1001, 40'000}); });
}

// Four processes on two GPUs, in turn.
class MixedCalls : public testing::TestWithParam<SumOrder> {
 protected:
  static Layout layout() {
    return as_processes(4, Gpus::kTwoInTurns, {{"RONDO_REPRODUCIBLE", GetParam().reproducible}});
  }
  void SetUp() override {
    if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Orders, MixedCalls, testing::ValuesIn(kSumOrders),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MixedCalls, TakeEveryTypeAndOperation) {
  run_job(layout(), [](NcclRank& seat) {
    reduce_every_type_and_operation(
        seat, {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}, 700);
  });
}

TEST_P(MixedCalls, KeepTheirOrderOnSeveralStreams) {
  run_job(layout(), call_on_several_streams);
  run_job(layout(), sum_on_per_thread_streams);
}

TEST_P(MixedCalls, ScaleByAFactorOnTheDevice) { run_job(layout(), scale_by_factors_on_the_device); }

TEST(MixedLayouts, AreWarnedAboutOnce) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const RankLogs logs;
  run_job(as_processes(4, Gpus::kTwoInTurns,
                       {{"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", logs.file(0)}}),
          [](NcclRank& seat) { pass_round_a_ring(seat, {1}); });
  std::string line;
  EXPECT_EQ(logs.count(0, "the host does all calls of this communicator", &line), 1);
  EXPECT_NE(line.find("ranks 0 and 2 are processes that share one of 2 GPUs"), std::string::npos)
      << line;
}

}  // namespace
}  // namespace rondo::test
