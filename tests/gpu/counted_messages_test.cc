// SPDX-License-Identifier: Apache-2.0
// rondoAllToAllvDevice: counts and offsets in device memory, in every placement, and in replayed
// graphs whose counts change.
#include "tests/gpu/cliques.h"
#include "tests/gpu/counted_exchanges.h"
#include "tests/gpu/joint_graph.h"

namespace rondo::test {
namespace {

void exchange_counted(NcclRank& seat, std::size_t largest, bool packed) {
  Exchanges one(seat, largest, packed);
  for (unsigned round = 0; round < 4; ++round) {
    one.fill(round);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(one.call());
    one.check(round);
    if (testing::Test::HasFailure()) return;
  }
}

const NamedLayout kCountedPlaces[] = {
    {"two", with_small_slots(as_processes(2, Gpus::kOneEach))},
    {"three", with_small_slots(as_processes(3, Gpus::kOneEach))},
    {"four", with_small_slots(as_processes(4, Gpus::kOneEach))},
    {"eight", with_small_slots(as_processes(8, Gpus::kOneEach))},
    {"weak", with_small_slots(as_processes(3, Gpus::kOneEach), "mode=weak")},
    {"no_p2p", with_small_slots(as_processes(2, Gpus::kOneEach), "p2p=none")},
    {"threads", with_small_slots({{{0, 1, 2}}})},
    {"one_gpu", {{{0, 0, 0}}}},
    {"eight_on_one_gpu", {{{0, 0, 0, 0, 0, 0, 0, 0}}}},
    {"mixed", with_small_slots({{{0, 1}, {2}}})},
    {"hosts", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
    {"joined_hosts", in_cliques({{{0}, {1}}, {"a", "b"}}, {1, 1})},
    {"alone", as_processes(1, Gpus::kOneEach)},
};

class CountedMessages : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(Places, CountedMessages, testing::ValuesIn(kCountedPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CountedMessages, ArriveWhateverTheirCounts) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    exchange_counted(seat, 900, false);
    exchange_counted(seat, 900, true);
    exchange_counted(seat, 1, false);
  });
}

// Each replay reads the counts that are in memory then.
TEST_P(CountedMessages, ReadTheirCountsInEveryReplay) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    for (const bool packed : {false, true}) {
      Exchanges one(seat, 300, packed);
      JointGraph graph(seat, GetParam().layout);
      one.fill(0);
      graph.capture([&] { NCCL_OK(one.call()); });
      for (unsigned round = 0; round < 4; ++round) {
        one.fill(round);
        graph.replay();
        one.check(round);
        if (round != 1) continue;
        one.fill(round + 7);
        NCCL_OK(one.call());  // between replays
        one.check(round + 7);
      }
    }
  });
}

// Parts that take more than one of a pair's channels, and others of the same call that take one.
TEST(CountedMessagesSizes, AreCutAmongChannels) {
  Layout layout = as_processes(2, Gpus::kOneEach, {{"RONDO_GPU_STAGING", "2M"}});
  run_job(layout, [](NcclRank& seat) { exchange_counted(seat, 90'000, true); });
}

}  // namespace
}  // namespace rondo::test
