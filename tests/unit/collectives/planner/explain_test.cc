// SPDX-License-Identifier: Apache-2.0
// explain() reports what the planner does.
#include "collectives/planner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/collectives/planner/host_calls.h"

namespace rondo {
namespace {

std::string row(const std::vector<ExplainRow>& rows, std::string_view what, bool why = false) {
  for (const ExplainRow& each : rows)
    if (each.what == what) return why ? each.why : each.value;
  return "no row";
}

PlanFacts facts_of(int ranks, int hosts, const char* algorithms = "") {
  PlanFacts facts = test::facts_on(ranks, hosts);
  facts.algorithms = *parse_algorithms(algorithms, "NCCL_ALGO");
  return facts;
}

CallRecord call(Collective collective, std::uint64_t count) {
  return {count, collective, DataType::kFloat32, RedOp::kSum, 0, -1};
}

TEST(Explain, NamesTheAlgorithmAndTheRoundsOfThePlan) {
  int plans = 0;
  for (const char* algorithms : {"", "ring", "^oneshot", "tree,recursive", "allreduce:twoshot"})
    for (int ranks : {2, 3, 8, 100})
      for (int hosts : {1, 2})
        for (Collective collective : {Collective::kAllReduce, Collective::kReduce,
                                      Collective::kBroadcast, Collective::kAllGather})
          for (std::uint64_t count : {1, 8, 1000, 100'000, 10'000'000}) {
            const PlanFacts facts = facts_of(ranks, hosts, algorithms);
            const auto plan = make_plan(facts, call(collective, count));
            const auto rows = explain(facts, call(collective, count));
            if (!plan.ok()) {
              EXPECT_EQ(row(rows, "refused", true), plan.error().text);
              continue;
            }
            ++plans;
            EXPECT_EQ(row(rows, "algorithm"), name(plan->algorithm));
            EXPECT_EQ(row(rows, "protocol"), name(plan->protocol));
            EXPECT_EQ(row(rows, "rounds"), fmt::format("{}", plan->rounds.size()));
          }
  EXPECT_GT(plans, 500);
}

TEST(Explain, ReportsWhatTheChoiceIsWorthAndWhereAnotherBegins) {
  const PlanFacts facts = facts_of(8, 1);
  const auto small = explain(facts, call(Collective::kAllReduce, 16));
  EXPECT_EQ(row(small, "algorithm"), "oneshot");
  EXPECT_EQ(row(small, "predicted"),
            fmt::format("{:.3g} us", predicted_ns(facts, call(Collective::kAllReduce, 16)) / 1e3));
  EXPECT_THAT(row(small, "predicted", true), testing::HasSubstr("priors"));
  EXPECT_NE(row(small, "next best"), "oneshot");
  std::uint64_t count = 16;
  while (bytes_text(count * 4) != row(small, "changes at") && count < 1 << 24) count *= 2;
  EXPECT_EQ(row(explain(facts, call(Collective::kAllReduce, count / 2)), "algorithm"), "oneshot");
  EXPECT_EQ(row(explain(facts, call(Collective::kAllReduce, count)), "algorithm"),
            row(small, "changes at", true));
}

TEST(Explain, ReportsWhetherCostsWereMeasured) {
  PlanFacts facts = facts_of(2, 1);
  facts.costs.measured = true;
  EXPECT_THAT(row(explain(facts, call(Collective::kBroadcast, 16)), "predicted", true),
              testing::HasSubstr("rondo tune has measured"));
}

TEST(Explain, ReportsWhatTheEnvironmentForbids) {
  const auto rows = explain(facts_of(2, 1, "^oneshot"), call(Collective::kAllReduce, 64));
  EXPECT_EQ(row(rows, "left out"), "oneshot");
  EXPECT_EQ(row(rows, "forbidden"), "oneshot");
  EXPECT_EQ(row(explain(facts_of(2, 1), call(Collective::kAllReduce, 64)), "forbidden"), "no row");
}

TEST(Explain, ReportsThatHostsAreAHierarchy) {
  const auto rows = explain(facts_of(4, 2), call(Collective::kAllReduce, 1'000'000));
  EXPECT_EQ(row(rows, "algorithm"), "hierarchical");
  EXPECT_THAT(row(rows, "algorithm", true), testing::HasSubstr("by 2 ranks of each"));
  EXPECT_THAT(row(rows, "order", true), testing::HasSubstr("tree over hosts"));
  EXPECT_EQ(
      row(explain(facts_of(4, 2, "ring"), call(Collective::kAllReduce, 1'000'000)), "algorithm"),
      "ring");
}

TEST(Explain, TakesAHierarchyWhereItWasMeasuredToWin) {
  const auto algorithm = [](int ranks, Collective collective, std::uint64_t count,
                            const char* only = "") {
    CallRecord record = call(collective, count);
    record.root = is_rooted(collective) ? 1 : -1;
    PlanFacts facts = facts_of(ranks, 2, only);
    facts.core_share = ranks / 2;  // of a core for each host
    return row(explain(facts, record), "algorithm");
  };
  for (const Collective each : {Collective::kReduce, Collective::kBroadcast,
                                Collective::kReduceScatter, Collective::kAllGather}) {
    EXPECT_EQ(algorithm(4, each, 1), "hierarchical");
    EXPECT_EQ(algorithm(4, each, 1 << 22), "hierarchical");
    EXPECT_EQ(algorithm(4, each, 1 << 22, "ring"), "ring");
    EXPECT_NE(algorithm(2, each, 1 << 22), "hierarchical");
    EXPECT_EQ(algorithm(2, each, 1 << 22, "hierarchical"), "hierarchical");
  }
}

TEST(Explain, KnowsWhatVCollectivesAreMadeOf) {
  for (const Collective which : {Collective::kAllToAllV, Collective::kAllGatherV,
                                 Collective::kGatherV, Collective::kScatterV})
    EXPECT_EQ(row(explain(facts_of(4, 1), call(which, 64)), "algorithm"), "messages");
  const auto rows = explain(facts_of(4, 1), call(Collective::kReduceScatterV, 64));
  EXPECT_EQ(row(rows, "algorithm"), "reduces");
}

TEST(Explain, KnowsMessagesBetweenHosts) {
  EXPECT_EQ(row(explain(facts_of(4, 2), call(Collective::kAllToAll, 64)), "algorithm"), "messages");
}

}  // namespace
}  // namespace rondo
