// SPDX-License-Identifier: Apache-2.0
// The grid of a tuner's answers: the answer that a call takes, and how ranks compare their grids.
#include "collectives/planner/tuned_ways.h"

#include <gtest/gtest.h>

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {
namespace {

constexpr TunedWay kTree{true, Algorithm::kTree, cuda::Protocol::kLL, 2};

CallRecord bytes_of(std::uint64_t bytes, Collective which = Collective::kAllReduce) {
  CallRecord record;
  record.collective = which;
  record.count = bytes;
  return record;
}

TEST(TunedWays, ACallTakesTheAnswerAtOrAboveItsSize) {
  for (int size = 0; size < TunedWays::kSizes; ++size) {
    TunedWays ways;
    ways.at(Collective::kAllReduce, size) = kTree;
    const std::uint64_t at = TunedWays::bytes_at(size);
    EXPECT_EQ(ways.of(bytes_of(at), 8), kTree) << size;
    EXPECT_EQ(ways.of(bytes_of(at - 1), 8), kTree) << size;
    EXPECT_EQ(ways.of(bytes_of(at / 2 + 1), 8), kTree) << size;
    EXPECT_EQ(ways.of(bytes_of(at / 2), 8) == kTree, size == 0) << size;
    EXPECT_EQ(ways.of(bytes_of(at + 1), 8) == kTree, size == TunedWays::kSizes - 1) << size;
    EXPECT_EQ(ways.of(bytes_of(at, Collective::kReduce), 8), TunedWay{});
  }
}

TEST(TunedWays, CallsWithoutRingsAndWithoutDataTakeNone) {
  TunedWays ways;
  for (int size = 0; size < TunedWays::kSizes; ++size)
    ways.at(Collective::kAllReduce, size) = kTree;
  EXPECT_EQ(ways.of(bytes_of(0), 8), TunedWay{});
  for (const Collective which : {Collective::kAllToAll, Collective::kBarrier, Collective::kSend})
    EXPECT_EQ(ways.of(bytes_of(64, which), 8), TunedWay{});
}

TEST(TunedWays, WhatPluginsCountIsAllBlocks) {
  EXPECT_EQ(TunedWays::bytes_of(bytes_of(100, Collective::kAllGather), 8), 800u);
  EXPECT_EQ(TunedWays::bytes_of(bytes_of(100, Collective::kReduceScatter), 8), 800u);
  EXPECT_EQ(TunedWays::bytes_of(bytes_of(100, Collective::kBroadcast), 8), 100u);
  for (int size = 4; size < TunedWays::kSizes; ++size) {
    const CallRecord gather = TunedWays::record_at(Collective::kAllGather, size, 8);
    EXPECT_EQ(TunedWays::bytes_of(gather, 8), TunedWays::bytes_at(size));
  }
  EXPECT_EQ(TunedWays::record_at(Collective::kAllGather, 0, 8).count, 1u);
}

TEST(TunedWays, TravelWhole) {
  TunedWays ways;
  EXPECT_TRUE(ways.empty());
  ways.at(Collective::kReduceScatter, 20) = kTree;
  EXPECT_FALSE(ways.empty());
  const auto read = TunedWays::decode(ways.encode());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->digest(), ways.digest());
  EXPECT_EQ(read->difference(ways), "");
  EXPECT_NE(TunedWays().digest(), ways.digest());
  Bytes cut = ways.encode();
  cut.pop_back();
  EXPECT_FALSE(TunedWays::decode(cut));
  Bytes wrong = ways.encode();
  wrong[1] = std::byte{200};
  EXPECT_FALSE(TunedWays::decode(wrong)) << "no such algorithm";
}

TEST(TunedWays, ThatDifferNameTheFirstCall) {
  TunedWays ways, others;
  ways.at(Collective::kAllReduce, 18) = kTree;
  others.at(Collective::kAllReduce, 18) = {true, Algorithm::kRing, cuda::Protocol::kSimple, 0};
  EXPECT_EQ(ways.difference(others),
            "tree by LL on at most 2 channels for AllReduce of 1 MiB, not ring by Simple");
  EXPECT_EQ(TunedWays().difference(ways),
            "Rondo's own choice for AllReduce of 1 MiB, not tree by LL on at most 2 channels");
}

}  // namespace
}  // namespace rondo::gpu
