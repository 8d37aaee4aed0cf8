// SPDX-License-Identifier: Apache-2.0
// Which plans of host memory sum in the order of the balanced tree over ranks, as
// docs/start/same-bits.md says.
#include <gtest/gtest.h>

#include "collectives/planner/host_strategies.h"
#include "collectives/planner/planner.h"
#include "tests/unit/collectives/planner/host_calls.h"

namespace rondo {
namespace {

// Of the plans for sums of that type, on 2 to 16 ranks of one host: how many are not in tree order.
int plans_of_other_order(const HostCosts& costs, bool reproducible, DataType type) {
  int found = 0;
  for (int ranks = 2; ranks <= 16; ++ranks)
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
      for (std::uint64_t bytes = 64; bytes <= 64 << 20; bytes *= 4) {
        PlanFacts facts = test::facts_on(ranks);
        facts.costs = costs;
        facts.reproducible = reproducible;
        CallRecord record = test::call_of_bytes(collective, bytes);
        record.type = type;
        const auto plan = make_plan(facts, record);
        EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().text);
        if (plan.ok() && !has_tree_bits(facts, *plan, type)) ++found;
      }
  return found;
}

class TreeBits : public testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(Of, TreeBits, testing::Values(DataType::kFloat32, DataType::kBfloat16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(TreeBits, AreThoseOfAllPlansOfOneHost) {
  EXPECT_EQ(plans_of_other_order({}, false, GetParam()), 0);
}

TEST_P(TreeBits, AreOthersWhereATuneFileChoosesConnections) {
  HostCosts costs;
  costs.measured = true;
  costs.ns[static_cast<std::size_t>(HostRate::kSlot)] = 1e-3;
  costs.ns[static_cast<std::size_t>(HostRate::kPeer)] = 1e6;
  EXPECT_GT(plans_of_other_order(costs, false, GetParam()), 0);
  EXPECT_EQ(plans_of_other_order(costs, true, GetParam()), 0);
}

TEST_P(TreeBits, AreOthersWhereNcclAlgoChoosesConnections) {
  PlanFacts facts = test::facts_on(8);
  facts.algorithms = *parse_algorithms("Ring", "test");
  CallRecord record = test::call_of_bytes(Collective::kAllReduce, 1 << 20);
  record.type = GetParam();
  EXPECT_FALSE(has_tree_bits(facts, make_plan(facts, record).value(), GetParam()));
}

}  // namespace
}  // namespace rondo
