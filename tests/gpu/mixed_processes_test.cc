// Ranks in several processes that share GPUs, while the communicator has several GPUs: every
// collective and messages, with P2P between all of them, between some and between none.
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

struct Layout {
  const char* name;
  Places places;
};
const Layout kLayouts[] = {
    {"two_and_one", {{0}, {0}, {1}}},       {"one_and_two", {{0}, {1}, {1}}},
    {"blocks", {{0}, {0}, {1}, {1}}},       {"in_turns", {{0}, {1}, {0}, {1}}},
    {"threads_in_turns", {{0, 1}, {1, 0}}}, {"threads_on_three", {{0, 2}, {2}, {1, 2}}},
};
struct Machine {
  const char* name;
  const char* simt;  // RONDO_SIMT
  const char* reproducible = "0";
};
constexpr Machine kMachines[] = {{"p2p", "p2p=all"},
                                 {"apart", "p2p=none"},
                                 {"pairs", "p2p=pairs"},
                                 {"p2p_reproducible", "p2p=all", "1"},
                                 {"apart_reproducible", "p2p=none", "1"}};

class Mixed : public testing::TestWithParam<std::tuple<Layout, Machine>> {
 protected:
  const Places& places() const { return std::get<Layout>(GetParam()).places; }
  // Small staging and slots, so that calls take several steps.
  Environment environment(Environment more = {}) const {
    more.emplace_back("RONDO_SIMT", std::get<Machine>(GetParam()).simt);
    more.emplace_back("RONDO_REPRODUCIBLE", std::get<Machine>(GetParam()).reproducible);
    more.emplace_back("NCCL_BUFFSIZE", "4096");
    more.emplace_back("NCCL_MAX_CTAS", "2");
    more.emplace_back("RONDO_GPU_STAGING", "64K");
    return more;
  }
  void SetUp() override {
    if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, Mixed,
                         testing::Combine(testing::ValuesIn(kLayouts),
                                          testing::ValuesIn(kMachines)),
                         [](const auto& info) {
                           return std::string(std::get<Layout>(info.param).name) + "_" +
                                  std::get<Machine>(info.param).name;
                         });

TEST_P(Mixed, EqualsTheReferenceForOddSizesAndAlignments) {
  run_on_gpus(places(), environment(), [](GpuSeat& seat) {
    run_every_collective(seat, {0, 1, 37, 3001, 9000},
                         {DataType::kUint8, DataType::kFloat64, DataType::kFloat32},
                         [](int, int number) { return number % 3 == 0; });
  });
}

TEST_P(Mixed, PassesMessagesRoundARing) {
  run_on_gpus(places(), environment(), [](GpuSeat& seat) {
    pass_round_a_ring(seat, {0, 1, 1001, 40'000});
  });
}

// Four processes on two GPUs, in turns.
class MixedCalls : public testing::TestWithParam<Machine> {
 protected:
  static inline const Places kPlaces = {{0}, {1}, {0}, {1}};
  Environment environment(Environment more = {}) const {
    more.emplace_back("RONDO_SIMT", GetParam().simt);
    more.emplace_back("RONDO_REPRODUCIBLE", GetParam().reproducible);
    return more;
  }
  void SetUp() override {
    if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Machines, MixedCalls, testing::ValuesIn(kMachines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MixedCalls, TakeEveryTypeAndOperation) {
  run_on_gpus(kPlaces, environment(), [](GpuSeat& seat) {
    reduce_every_type_and_operation(
        seat, {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}, 700);
  });
}

TEST_P(MixedCalls, KeepTheirOrderOnSeveralStreams) {
  run_on_gpus(kPlaces, environment(), call_on_several_streams);
}

TEST_P(MixedCalls, ScaleByAFactorOnTheDevice) {
  run_on_gpus(kPlaces, environment(), scale_by_factors_on_the_device);
}

}  // namespace
}  // namespace rondo::test
