// SPDX-License-Identifier: Apache-2.0
// Which calls between hosts run as kernels, and where the memory between hosts is.
#include "collectives/planner/newest_device_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "tests/unit/collectives/gpu/gpu_records.h"

namespace rondo::gpu {
namespace {

// A GPU for each rank.
GpuPlan planned(const std::vector<int>& hosts) {
  std::vector<int> each(hosts.size());
  std::iota(each.begin(), each.end(), 0);
  auto plan = plan_gpus(gpu_records(hosts, each, each));
  EXPECT_TRUE(plan.ok() && plan->engine == GpuPlan::Engine::kHosts);
  return std::move(*plan);
}

CallRecord call(Collective which, std::uint64_t floats) {
  return {floats,      which, DataType::kFloat32,
          RedOp::kSum, 0,     which == Collective::kBroadcast ? 0 : -1};
}

TEST(InternodePlan, TheBytesThatMoveDecide) {
  const GpuPlan found = planned({0, 1, 1, 2});
  const auto runs = [&](Collective which, std::uint64_t floats) {
    return plan_across_hosts(found.plan, found.from_bytes, call(which, floats)).has_value();
  };
  EXPECT_TRUE(runs(Collective::kAllReduce, 1024));
  EXPECT_FALSE(runs(Collective::kAllReduce, 1023));
  EXPECT_TRUE(runs(Collective::kAllGather, 256)) << "4 blocks";
  EXPECT_FALSE(runs(Collective::kAllGather, 255));
  EXPECT_TRUE(runs(Collective::kAllToAll, 256)) << "messages";
  EXPECT_FALSE(runs(Collective::kAllToAll, 255));
  EXPECT_TRUE(runs(Collective::kGather, 256) && runs(Collective::kScatter, 256));
  EXPECT_FALSE(runs(Collective::kBarrier, 0));
  const auto plan =
      plan_across_hosts(found.plan, found.from_bytes, call(Collective::kAllReduce, 1 << 20));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->protocol, cuda::Protocol::kSimple);
  EXPECT_GT(plan->channels, 1);
  EXPECT_LE(plan->channels, found.shape.channels);
}

TEST(InternodePlan, CallsThatNoRingOrTreeMayRunAreTheHosts) {
  const auto runs = [](DevicePlanFacts facts) {
    return plan_across_hosts(facts, 0, call(Collective::kAllReduce, 1000)).has_value();
  };
  DevicePlanFacts facts = planned({0, 1}).plan;
  EXPECT_TRUE(runs(facts));
  facts.reproducible = true;
  EXPECT_FALSE(runs(facts));
  facts = planned({0, 1}).plan;
  facts.algorithms = *parse_algorithms("hierarchical", "NCCL_ALGO");
  EXPECT_FALSE(runs(facts));
}

TEST(InternodePlan, IsExplained) {
  InternodeQuestion question;
  question.facts = usual_internode_facts(4, 2);
  question.from_bytes = 4096;
  const auto runs = [&](const CallRecord& record) {
    std::string text;
    for (const ExplainRow& row :
         explain_across_hosts(question, record, {{"call", "x", ""}, {"algorithm", "of hosts", ""}}))
      text += row.what + ": " + row.value + "; " + row.why + "\n";
    return text;
  };
  EXPECT_NE(runs(call(Collective::kAllReduce, 1 << 20)).find("as kernels"), std::string::npos);
  const std::string small = runs(call(Collective::kAllReduce, 1000));
  EXPECT_NE(small.find("it moves less than 4 KiB"), std::string::npos) << small;
  EXPECT_NE(small.find("algorithm: of hosts"), std::string::npos) << small;
  question.own_gpus = false;
  EXPECT_NE(runs(call(Collective::kAllReduce, 1 << 20)).find("ranks share a GPU"),
            std::string::npos);
}

// Both sides of a connection between hosts have their own slots; connections between other ranks
// cost this host no memory.
TEST(InternodePlan, LayoutsHoldOnlyWhatAHostNeeds) {
  const GpuPlan found = planned({0, 0, 1, 1});
  const ConnectionLayout first(found.shape, found.near, {found.host_of, 0});
  const ConnectionLayout second(found.shape, found.near, {found.host_of, 1});
  bool any = false;
  for (const ConnectionLayout::Edge& here : first.edges()) {
    ASSERT_TRUE(found.host_of[here.from] == 0 || found.host_of[here.to] == 0);
    ASSERT_EQ(here.crosses(), found.host_of[here.from] != found.host_of[here.to]);
    if (!here.crosses()) continue;
    any = true;
    const auto is_same = [&](const ConnectionLayout::Edge& other) {
      return other.from == here.from && other.to == here.to && other.lane == here.lane &&
             other.channel == here.channel;
    };
    const auto of_second = std::find_if(second.edges().begin(), second.edges().end(), is_same);
    ASSERT_NE(of_second, second.edges().end());
    const ConnectionLayout::Edge& there = *of_second;
    const bool sends = found.host_of[here.from] == 0;
    const int own = sends ? cuda::kOutgoing : cuda::kIncoming;
    EXPECT_TRUE(here.bounce_buffers[own]);
    EXPECT_FALSE(here.bounce_buffers[1 - own]);
    EXPECT_TRUE(there.bounce_buffers[1 - own]);
    EXPECT_FALSE(first.uses(here.from, here.to));
  }
  EXPECT_TRUE(any);
  for (int r = 0; r < 4; ++r) {
    const bool on_first = found.host_of[r] == 0;
    EXPECT_EQ(first.bounce_word_bytes(r) > 0, on_first) << r;
    EXPECT_EQ(second.bounce_word_bytes(r) > 0, !on_first) << r;
  }
  EXPECT_TRUE(first.uses(0, 1));
}

}  // namespace
}  // namespace rondo::gpu
