// SPDX-License-Identifier: Apache-2.0
// Time is split into the wait for the last rank and the movement of the data.
#include "collectives/trace/call_skew.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/collectives/trace/sample_traces.h"

namespace rondo::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CallSkew, SplitsLatenessAndMovement) {
  const std::vector<TracedComm> comms = comms_of(test::sample_traces());
  ASSERT_EQ(comms.size(), 1u);
  const std::vector<CallSkew> skews = skews_of(comms[0]);
  ASSERT_EQ(skews.size(), 3u);
  EXPECT_EQ(skews[0].late_ns, 0);
  EXPECT_EQ(text_of(skews[1]),
            "rank 1 came 41.0 ms late to call 2, AllReduce(count 1024, float32, sum); moving took "
            "900.0 us");
  EXPECT_THAT(skews[2].open, ElementsAre(0, 2));
  EXPECT_EQ(skews[2].moving_ns, -1);
}

TEST(CallSkew, AnEarlyRankMakesNoOtherRankLate) {
  std::vector<RankTrace> traces = test::sample_traces();
  for (RankTrace& rank : traces) {
    rank.calls.resize(1);
    rank.calls[0].entered_ns = rank.rank == 0 ? 1'000'000 : 31'000'000;
    rank.calls[0].ended_ns = 32'000'000;
  }
  traces.push_back(traces[2]);
  traces.back().rank = 3;
  const std::vector<CallSkew> skews = skews_of(comms_of(traces)[0]);
  EXPECT_EQ(skews[0].late_ns, 0);
}

TEST(CallSkew, SummaryNamesTheHangTheLateRankAndEachRank) {
  const std::string text = summary_of(comms_of(test::sample_traces())[0]);
  EXPECT_THAT(text,
              HasSubstr("communicator 0x1f2e3d4c5b6a7988 weights: 3 ranks, 3 here, calls 1 to 3"));
  EXPECT_THAT(text,
              HasSubstr("call 3, AllReduce(count 1024, float32, sum), has not ended: ranks 0, "
                        "2 in it; rank 1 not entered"));
  EXPECT_THAT(text, HasSubstr("rank 1 came 41.0 ms late to call 2"));
  EXPECT_THAT(text, HasSubstr("40.0 ms  rank 1"));
}

TEST(CallSkew, NamesDifferentCalls) {
  std::vector<RankTrace> traces = test::sample_traces();
  traces[2].calls[2].call.collective = Collective::kBroadcast;
  traces[2].calls[2].call.root = 0;
  const std::string text = summary_of(comms_of(traces)[0]);
  EXPECT_THAT(text, HasSubstr("rank 0 made AllReduce(count 1024, float32, sum), rank 2 made "
                              "Broadcast(count 1024, float32, root 0)"));
}

TEST(Jobs, AreSortedBySizeAndTakeTheNewestTraceOfARank) {
  std::vector<RankTrace> traces = test::sample_traces();
  RankTrace old = traces[0];
  old.calls.resize(1);
  traces.push_back(old);
  RankTrace small = old;
  small.communicator = 5;
  small.size = 2;
  traces.insert(traces.begin(), small);
  const std::vector<TracedComm> comms = comms_of(traces);
  ASSERT_EQ(comms.size(), 2u);
  EXPECT_EQ(comms[0].first().size, 3);
  EXPECT_EQ(comms[0].first().calls.size(), 3u);
}

}  // namespace
}  // namespace rondo::trace
