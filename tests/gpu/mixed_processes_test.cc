// Ranks in several processes that share GPUs, in a communicator with several GPUs: every collective
// and messages, with P2P between all of them, between some and between none.
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

const NamedLayout kMixedLayouts[] = {
    {"two_and_one", {{{0}, {0}, {1}}}},       {"one_and_two", {{{0}, {1}, {1}}}},
    {"blocks", {{{0}, {0}, {1}, {1}}}},       {"in_turns", {{{0}, {1}, {0}, {1}}}},
    {"threads_in_turns", {{{0, 1}, {1, 0}}}}, {"threads_on_three", {{{0, 2}, {2}, {1, 2}}}},
};
struct MixedMachine {
  const char* name;
  const char* simt;  // RONDO_SIMT
  const char* reproducible = "0";
};
constexpr MixedMachine kMixedMachines[] = {{"p2p", "p2p=all"},
                                           {"apart", "p2p=none"},
                                           {"pairs", "p2p=pairs"},
                                           {"p2p_reproducible", "p2p=all", "1"},
                                           {"apart_reproducible", "p2p=none", "1"}};

class Mixed : public testing::TestWithParam<std::tuple<NamedLayout, MixedMachine>> {
 protected:
  // Small staging and slots, so that calls take several steps.
  static Layout layout() {
    return std::get<NamedLayout>(GetParam())
        .layout.under({{"RONDO_SIMT", std::get<MixedMachine>(GetParam()).simt},
                       {"RONDO_REPRODUCIBLE", std::get<MixedMachine>(GetParam()).reproducible},
                       {"NCCL_BUFFSIZE", "4096"},
                       {"NCCL_MAX_CTAS", "2"},
                       {"RONDO_GPU_STAGING", "64K"}});
  }
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, Mixed,
                         testing::Combine(testing::ValuesIn(kMixedLayouts),
                                          testing::ValuesIn(kMixedMachines)),
                         [](const auto& info) {
                           return std::string(std::get<NamedLayout>(info.param).name) + "_" +
                                  std::get<MixedMachine>(info.param).name;
                         });

TEST_P(Mixed, EqualsTheReferenceForOddSizesAndAlignments) {
  run_job(layout(), 240, [](NcclRank& seat) {
    run_every_collective(seat, {0, 1, 37, 3001, 9000},
                         {DataType::kUint8, DataType::kFloat64, DataType::kFloat32},
                         [](int, int number) { return number % 3 == 0; });
  });
}

TEST_P(Mixed, PassesMessagesRoundARing) {
  run_job(layout(), 240, [](NcclRank& seat) { pass_round_a_ring(seat, {0, 1, 1001, 40'000}); });
}

// Four processes on two GPUs, in turn.
class MixedCalls : public testing::TestWithParam<MixedMachine> {
 protected:
  static Layout layout() {
    return as_processes(
        4, Gpus::kTwoInTurns,
        {{"RONDO_SIMT", GetParam().simt}, {"RONDO_REPRODUCIBLE", GetParam().reproducible}});
  }
  void SetUp() override {
    if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Machines, MixedCalls, testing::ValuesIn(kMixedMachines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MixedCalls, TakeEveryTypeAndOperation) {
  run_job(layout(), 240, [](NcclRank& seat) {
    reduce_every_type_and_operation(
        seat, {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}, 700);
  });
}

TEST_P(MixedCalls, KeepTheirOrderOnSeveralStreams) {
  run_job(layout(), 240, call_on_several_streams);
  run_job(layout(), 240, sum_on_per_thread_streams);
}

TEST_P(MixedCalls, ScaleByAFactorOnTheDevice) {
  run_job(layout(), 240, scale_by_factors_on_the_device);
}

}  // namespace
}  // namespace rondo::test
