// SPDX-License-Identifier: Apache-2.0
// Reports that ranks of different hosts exchange while they wait.
#include "collectives/faults/rank_report.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

HostReport sample(std::size_t ranks) {
  HostReport report;
  report.is_question = true;
  report.is_last = false;
  report.sequence = 12;
  report.traffic[2] = {5, 7, 1};
  for (std::size_t r = 0; r < ranks; ++r) {
    RankReport rank;
    rank.rank = static_cast<int>(r);
    rank.sequence = rank.shown = rank.wait_sequence = 12;
    rank.finished = 11;
    rank.state = kWaiting;
    rank.waiting_for = 3;
    rank.announced =
        rank.waits_in = {9, Collective::kAllGather, DataType::kFloat32, RedOp::kSum, 0, -1};
    report.ranks.push_back(rank);
  }
  return report;
}

TEST(HostReport, ArrivesAsItWasSentAndFitsAControlMessage) {
  const auto bytes = encode_host_report(sample(HostReport::kMaxRanks));
  EXPECT_LT(bytes.size(), RemoteLinks::kMaxControlBytes);  // one more byte holds its kind
  const auto found = decode_host_report(bytes, 40);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_question);
  EXPECT_FALSE(found->is_last);
  EXPECT_EQ(found->sequence, 12u);
  EXPECT_EQ(found->traffic[2].received, 7u);
  ASSERT_EQ(found->ranks.size(), HostReport::kMaxRanks);
  EXPECT_EQ(describe(found->ranks[5], 12),
            "in call 12, AllGather(count 9, float32), step 0, waits for rank 3");
  EXPECT_EQ(describe(found->ranks[5], 13).substr(0, 20), "not entered call 13 ");
}

// A rank that waits for staging memory has entered its call, but not announced it.
TEST(HostReport, ShowsACallBeforeItIsAnnounced) {
  RankReport early = sample(1).ranks[0];
  early.finished = 12;
  EXPECT_EQ(describe(early, 12), "finished call 12, AllGather(count 9, float32), step 0");
  early.wait_sequence = 13;
  EXPECT_EQ(early.entered(), 13u);
  EXPECT_EQ(describe(early, 13),
            "in call 13, AllGather(count 9, float32), step 0, waits for rank 3");
}

TEST(HostReport, IsNotReadWhereNoRankCanHaveSentIt) {
  const auto bytes = encode_host_report(sample(4));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_host_report(std::span(bytes).first(length), 40)) << length;
  EXPECT_FALSE(decode_host_report(bytes, 3)) << "rank 3 of 3";
  auto longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(decode_host_report(longer, 40));
  EXPECT_FALSE(decode_host_report(encode_host_report(sample(HostReport::kMaxRanks + 1)), 40));
}

TEST(Traffic, IsQuietOnlyWhereNothingCanBeOnItsWay) {
  RemoteLinks::Traffic here, there;
  EXPECT_TRUE(is_quiet(here, there));
  there[0].sent = 3;
  EXPECT_FALSE(is_quiet(here, there)) << "this rank has not asked for anything on that lane";
  here[0].received = 3;
  EXPECT_TRUE(is_quiet(here, there));
  here[2].sent = 4;
  there[2] = {0, 2, 0};
  EXPECT_FALSE(is_quiet(here, there));
  there[2].full = 1;  // its slots are full: it receives more only after it has read them
  EXPECT_TRUE(is_quiet(here, there));
}

}  // namespace
}  // namespace rondo
