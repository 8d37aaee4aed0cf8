// SPDX-License-Identifier: Apache-2.0
// Prices of ordered reductions: what they are made of, and how they move with leaves and sizes.
#include "collectives/model/ordered_predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/model/host_predictions.h"
#include "tests/support/fixtures.h"
#include "tests/unit/collectives/planner/host_calls.h"

namespace rondo::model {
namespace {

using testing::HasSubstr;

CallRecord plain_call(Collective which, std::uint64_t bytes, DataType type = DataType::kFloat32) {
  CallRecord record;
  record.collective = which;
  record.type = type;
  record.count = bytes / size_of(type);
  record.root = which == Collective::kReduce ? 0 : -1;
  return record;
}

double host_us(const PlanFacts& facts, const CallRecord& plain, std::uint32_t leaves) {
  const auto record = ordered(plain, leaves);
  EXPECT_TRUE(record.ok()) << record.error().text;
  const auto made = predict_ordered(facts, facts.ranks, *record);
  EXPECT_TRUE(made.ok()) << made.error().text;
  return made->us;
}

TEST(OrderedPredictions, OneLeafARankOnAHostCostsThePlainTreeAndTheExchangeOfRuns) {
  for (const int ranks : {2, 4, 8}) {
    PlanFacts facts = test::facts_on(ranks);
    facts.reproducible = true;
    for (const std::uint64_t bytes : {64 << 10, 4 << 20}) {
      const CallRecord plain = plain_call(Collective::kAllReduce, bytes);
      const CallRecord runs{8, Collective::kAllGather, DataType::kUint8, RedOp::kSum, 0, -1};
      double parts = 0;
      for (const CallRecord& step : {plain, runs})
        for (const HostWay& way : host_ways(facts, step))
          if (way.chosen) parts += predict_host(facts, ranks, step, way)->us;
      EXPECT_NEAR(host_us(facts, plain, static_cast<std::uint32_t>(ranks)), parts, 1e-3);
    }
  }
}

TEST(OrderedPredictions, MoreLeavesAndUnevenOnesCostMore) {
  const PlanFacts two = test::facts_on(2), three = test::facts_on(3);
  const CallRecord plain = plain_call(Collective::kAllReduce, 1 << 20);
  EXPECT_LT(host_us(two, plain, 2), host_us(two, plain, 8));
  EXPECT_LT(host_us(two, plain, 8), host_us(two, plain, 64));
  EXPECT_LT(host_us(two, plain, 4), host_us(three, plain, 4)) << "no whole subtrees of one size";
  // Wide sums move twice the bytes.
  const CallRecord narrow = plain_call(Collective::kAllReduce, 1 << 20, DataType::kBfloat16);
  EXPECT_LT(host_us(two, narrow, 64), 2.5 * host_us(two, plain, 64));
}

TEST(OrderedPredictions, OfEightGpusGrowWithBytesAndLeavesAndLieNearARing) {
  const auto made = GpuCluster::make(test::fixture("dgx-h100"), {});
  ASSERT_TRUE(made.ok()) << made.error().text;
  const GpuCluster& cluster = *made;
  double before = 0;
  for (const std::uint64_t bytes : {4 << 10, 1 << 20, 64 << 20, 1 << 30}) {
    const CallRecord plain = plain_call(Collective::kAllReduce, bytes);
    const auto us = [&](std::uint32_t leaves) {
      const auto record = ordered(plain, leaves);
      EXPECT_TRUE(record.ok());
      const auto made = predict_ordered(cluster, *record);
      EXPECT_TRUE(made.ok()) << made.error().text;
      return made->us;
    };
    EXPECT_LT(us(8), us(16));  // small ones of one leaf a rank are plain calls
    EXPECT_GT(us(16), before);
    before = us(16);
    if (bytes < 64 << 20) continue;
    for (const Way& way : ways_of(cluster, plain)) {
      if (way.name != "ring" || way.plan.protocol != cuda::Protocol::kSimple) continue;
      const auto ring = predict(cluster, plain, way);
      ASSERT_TRUE(ring.ok());
      EXPECT_GT(us(16), 0.5 * ring->us) << bytes;
      EXPECT_LT(us(16), 4 * ring->us) << bytes;
    }
  }
}

TEST(OrderedPredictions, RefusesWhatHasNoLeaves) {
  const auto gather = ordered(plain_call(Collective::kAllGather, 64), 4);
  ASSERT_FALSE(gather.ok());
  EXPECT_THAT(gather.error().text, HasSubstr("not for AllGather"));
  const auto odd = ordered(plain_call(Collective::kAllReduce, 64), 48);
  ASSERT_FALSE(odd.ok());
  EXPECT_THAT(odd.error().text, HasSubstr("48 leaves: give a power of two"));
}

}  // namespace
}  // namespace rondo::model
