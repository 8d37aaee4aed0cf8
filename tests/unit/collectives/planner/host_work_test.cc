// SPDX-License-Identifier: Apache-2.0
// Costs of plans: the model ranks the variants correctly wherever the order follows from their
// work.
#include "collectives/planner/planner.h"

#include <gtest/gtest.h>

#include "tests/unit/collectives/planner/host_calls.h"
#include "transport/connection.h"

namespace rondo {
namespace {

using test::call_of_bytes;
using test::facts_on;

double ns_forced(PlanFacts facts, const char* algorithm, const CallRecord& record) {
  facts.algorithms = *parse_algorithms(algorithm, "test");
  return predicted_ns(facts, record);
}

constexpr std::uint64_t kFewBytes = 64, kManyBytes = 16 << 20;
constexpr Collective kWorkCollectives[] = {
    Collective::kAllReduce,     Collective::kAllGather, Collective::kReduce,
    Collective::kReduceScatter, Collective::kBroadcast, Collective::kAllToAll,
    Collective::kGather,        Collective::kScatter,   Collective::kBarrier};

// A planner that takes the minimum needs a time for every variant.
TEST(HostWork, IsPositiveForEveryCallAndGrowsWithItsBytes) {
  for (const int ranks : {2, 3, 8, 64, 1000})
    for (const int hosts : {1, 2, 3})
      for (const Collective collective : kWorkCollectives) {
        if (hosts > ranks) continue;
        const PlanFacts facts = facts_on(ranks, hosts);
        const double small = predicted_ns(facts, call_of_bytes(collective, kFewBytes));
        EXPECT_GT(small, 0) << name(collective) << ' ' << ranks << " on " << hosts;
        if (collective == Collective::kBarrier) continue;
        EXPECT_GT(predicted_ns(facts, call_of_bytes(collective, kManyBytes)), small)
            << name(collective) << ' ' << ranks << " on " << hosts;
      }
}

// Each algorithm alone.
TEST(HostWork, IsKnownForEveryRowOfTheTable) {
  for (const AlgorithmRow& row : kAlgorithms) {
    if (!row.runs(Where::kHost) || row.collective == Collective::kBarrier) continue;
    PlanFacts facts = row.verbs == Verbs::kViews ? facts_on(4, 2) : facts_on(4);
    facts.algorithms = *parse_algorithms(name(row.algorithm), "test");
    const CallRecord record = call_of_bytes(row.collective, kFewBytes);
    const auto plan = make_plan(facts, record);
    ASSERT_TRUE(plan.ok()) << name(row.algorithm) << ' ' << name(row.collective) << ": "
                           << plan.error().text << " Has kStrategies of host_strategies.cc a row?";
    EXPECT_EQ(name(plan->algorithm), name(row.algorithm)) << name(row.collective);
    EXPECT_GT(predicted_ns(facts, record), 0) << name(row.algorithm);
  }
}

TEST(HostWork, OfTwoShotIsMoreMeetingsAndFewerBytesThanOfOneShot) {
  for (const int ranks : {2, 4, 8, 64}) {
    const PlanFacts facts = facts_on(ranks);
    EXPECT_LT(ns_forced(facts, "oneshot", call_of_bytes(Collective::kAllReduce, kFewBytes)),
              ns_forced(facts, "twoshot", call_of_bytes(Collective::kAllReduce, kFewBytes)));
    EXPECT_GT(ns_forced(facts, "oneshot", call_of_bytes(Collective::kAllReduce, kManyBytes)),
              ns_forced(facts, "twoshot", call_of_bytes(Collective::kAllReduce, kManyBytes)));
  }
}

TEST(HostWork, OfTreesIsFewerStepsAndOfRingsFewerBytesBetweenHosts) {
  const PlanFacts many = facts_on(16, 16), few = facts_on(4, 4);
  for (const char* few_steps : {"tree", "recursive"})
    EXPECT_LT(ns_forced(many, few_steps, call_of_bytes(Collective::kAllReduce, kFewBytes)),
              ns_forced(many, "ring", call_of_bytes(Collective::kAllReduce, kFewBytes)));
  EXPECT_LT(ns_forced(few, "ring", call_of_bytes(Collective::kAllReduce, kManyBytes)),
            ns_forced(few, "tree", call_of_bytes(Collective::kAllReduce, kManyBytes)));
}

TEST(HostWork, IsMoreWhereRanksShareCores) {
  for (const Collective collective : kWorkCollectives) {
    PlanFacts facts = facts_on(8);
    const double alone = predicted_ns(facts, call_of_bytes(collective, 1 << 16));
    facts.core_share = 4;
    EXPECT_GT(predicted_ns(facts, call_of_bytes(collective, 1 << 16)), alone) << name(collective);
  }
}

// Between processes, and only of calls that copy.
TEST(HostWork, DecidesWhetherPeersReadPrivateBuffers) {
  const auto protocol = [](const PlanFacts& facts, Collective collective, std::uint64_t bytes) {
    return make_plan(facts, call_of_bytes(collective, bytes))->protocol;
  };
  for (const int ranks : {2, 4, 64})
    for (const Collective collective : kWorkCollectives) {
      const bool copies = collective != Collective::kBarrier && !reduces(collective);
      PlanFacts facts = facts_on(ranks);
      facts.costs.ns[static_cast<std::size_t>(HostRate::kRead)] = 1e-3;
      facts.costs.ns[static_cast<std::size_t>(HostRate::kReadByte)] = 1e-6;
      EXPECT_NE(protocol(facts, collective, kManyBytes), Protocol::kRead) << "forbidden";
      facts.reads = MemoryReads::kWhereCheaper;
      EXPECT_EQ(protocol(facts, collective, kManyBytes) == Protocol::kRead, copies)
          << name(collective) << ' ' << ranks;
      EXPECT_NE(protocol(facts, collective, 4), Protocol::kRead) << name(collective);
      facts.costs.ns[static_cast<std::size_t>(HostRate::kReadByte)] = 10;
      EXPECT_NE(protocol(facts, collective, kManyBytes), Protocol::kRead) << name(collective);
      facts.reads = MemoryReads::kAlways;
      EXPECT_EQ(protocol(facts, collective, kManyBytes) == Protocol::kRead, copies)
          << name(collective);
      facts.one_process = true;
      EXPECT_NE(protocol(facts, collective, kManyBytes), Protocol::kRead) << name(collective);
    }
}

// The choice is the minimum over all variants, and follows the costs.
TEST(HostWork, DecidesWhatRuns) {
  PlanFacts facts = facts_on(8);
  facts.costs.measured = true;
  for (std::uint64_t bytes = 4; bytes <= kManyBytes; bytes *= 4) {
    const CallRecord record = call_of_bytes(Collective::kAllReduce, bytes);
    double minimum = 1e300;
    for (const char* algorithm : {"oneshot", "twoshot", "recursive", "tree", "ring"})
      minimum = std::min(minimum, ns_forced(facts, algorithm, record));
    EXPECT_EQ(predicted_ns(facts, record), minimum) << bytes;
  }
  PlanFacts two = facts;
  two.algorithms = *parse_algorithms("oneshot,twoshot", "test");
  PlanFacts slow_to_sync = two;
  slow_to_sync.costs.ns[static_cast<std::size_t>(HostRate::kPeer)] *= 1e4;
  const CallRecord middle = call_of_bytes(Collective::kAllReduce, 256 << 10);
  EXPECT_EQ(make_plan(two, middle)->algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(make_plan(slow_to_sync, middle)->algorithm, Algorithm::kOneShot);
}

// The initial costs of connections within a host are assumptions, so only measured ones count.
TEST(HostWork, TakesConnectionsWithinAHostOnlyByMeasuredCosts) {
  PlanFacts facts = facts_on(8);
  facts.costs.ns[static_cast<std::size_t>(HostRate::kSlot)] = 1e-3;
  facts.costs.ns[static_cast<std::size_t>(HostRate::kPeer)] = 1e6;
  const CallRecord record = call_of_bytes(Collective::kAllReduce, 1 << 20);
  EXPECT_EQ(make_plan(facts, record)->strategy, Strategy::kDirect);
  facts.costs.measured = true;
  EXPECT_EQ(make_plan(facts, record)->strategy, Strategy::kConnected);
}

}  // namespace
}  // namespace rondo
