// SPDX-License-Identifier: Apache-2.0
// Which calls between hosts run as kernels, and where the memory between hosts is.
#include "collectives/planner/recent_device_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/planner/device_plan.h"
#include "kernels/cuda/ll_push_args.h"
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

// Hosts with these cliques; 0: none.
GpuPlan joined(const std::vector<int>& hosts, const std::vector<int>& cliques,
               bool maps_memory = true) {
  std::vector<int> each(hosts.size());
  std::iota(each.begin(), each.end(), 0);
  GpuRecords records = gpu_records(hosts, each, each);
  records.fabric = maps_memory;
  for (std::size_t r = 0; r < cliques.size(); ++r) {
    if (cliques[r] == 0) continue;
    records.facts[r].fabric.cluster.fill(1);
    records.facts[r].fabric.clique = static_cast<std::uint32_t>(cliques[r]);
  }
  auto plan = plan_gpus(records);
  EXPECT_TRUE(plan.ok() && plan->engine == GpuPlan::Engine::kHosts);
  return std::move(*plan);
}

TEST(InternodePlan, CliquesJoinHostsAndNothingElse) {
  EXPECT_EQ(joined({0, 0, 1, 1}, {5, 5, 5, 5}).clique_of, (std::vector{0, 0, 0, 0}));
  EXPECT_EQ(joined({0, 0, 1, 2}, {5, 5, 5, 6}).clique_of, (std::vector{0, 0, 0, -1}))
      << "alone in its clique";
  EXPECT_EQ(joined({0, 0, 1, 1}, {5, 6, 5, 6}).clique_of, (std::vector{0, 1, 0, 1}));
  EXPECT_TRUE(joined({0, 0, 1, 1}, {5, 5, 6, 6}).clique_of.empty());
  EXPECT_TRUE(joined({0, 0, 1, 1}, {}).clique_of.empty());
  EXPECT_TRUE(joined({0, 0, 1, 1}, {5, 5, 5, 5}, false).clique_of.empty());
}

TEST(InternodePlan, OneCliqueRunsEveryProtocolAsOneHostDoes) {
  const GpuPlan one = joined({0, 0, 1, 1}, {5, 5, 5, 5}), none = joined({0, 0, 1, 1}, {});
  EXPECT_TRUE(one.plan.joined);
  EXPECT_FALSE(one.plan.crosses());
  EXPECT_EQ(one.plan.protocols, kUsualProtocols);
  EXPECT_EQ(one.shape.slot_bytes, kUsualSlotBytes);
  EXPECT_EQ(one.shape.ring_slot_bytes, kUsualRingSlotBytes);
  const auto plan_of = [](const GpuPlan& of, std::uint64_t floats) {
    const auto plan = plan_across_hosts(of.plan, 0, call(Collective::kAllReduce, floats));
    EXPECT_TRUE(plan);
    return plan.value_or(DevicePlan{});
  };
  EXPECT_EQ(plan_of(one, 1000).protocol, cuda::Protocol::kLL);
  EXPECT_EQ(plan_of(none, 1000).protocol, cuda::Protocol::kSimple);
  for (const std::uint64_t floats : {1000, 1 << 20})
    EXPECT_LT(gpu::predicted_ns(one.plan, call(Collective::kAllReduce, floats)),
              gpu::predicted_ns(none.plan, call(Collective::kAllReduce, floats)));
  EXPECT_EQ(plan_of(one, 1000).strategy, Strategy::kLLPush);
  EXPECT_EQ(plan_of(one, 200'000).strategy, Strategy::kShared);
  EXPECT_EQ(plan_of(one, 64 << 20).strategy, Strategy::kConnected);
  const GpuPlan two = joined({0, 0, 1, 2}, {5, 5, 5, 6});
  EXPECT_FALSE(two.plan.joined) << "a ring passes the network";
  EXPECT_EQ(two.plan.protocols, bit_of(cuda::Protocol::kSimple));
}

// LL push and shared kernels of all ranks of an NVL72, but sums only of types with their own code.
TEST(InternodePlan, OneCliqueSharesKernelsUpToARack) {
  const auto rack = [](int ranks) {
    std::vector<int> hosts;
    for (int r = 0; r < ranks; ++r) hosts.push_back(r / 4);
    return joined(hosts, std::vector<int>(static_cast<std::size_t>(ranks), 5));
  };
  const auto strategy = [](const GpuPlan& of, DataType type, std::uint64_t count) {
    const auto plan =
        plan_across_hosts(of.plan, 0, {count, Collective::kAllReduce, type, RedOp::kSum, 0, -1});
    return plan ? plan->strategy : Strategy::kAlone;
  };
  for (const int ranks : {12, 72}) {
    const GpuPlan all = rack(ranks);
    EXPECT_EQ(strategy(all, DataType::kBfloat16, 4096), Strategy::kLLPush) << ranks;
    EXPECT_NE(strategy(all, DataType::kInt32, 4096), Strategy::kLLPush) << ranks;
    const ConnectionLayout layout(all.shape, all.near, HostsOfRanks{all.host_of, 0, all.clique_of},
                                  all.orders);
    EXPECT_GT(layout.peers_at(), 0u);
    EXPECT_GT(layout.fabric_bytes(ranks - 1),
              cuda::ll_push_staging(ranks) + 2 * ConnectionLayout::kSharedStaging);
  }
  EXPECT_EQ(strategy(rack(72), DataType::kInt32, 4096), Strategy::kConnected);
  const GpuPlan more = rack(76);
  EXPECT_FALSE(more.plan.may_ll_push || more.plan.shared_bytes > 0 || more.shape.shares_fabric);
  EXPECT_EQ(strategy(more, DataType::kBfloat16, 4096), Strategy::kConnected);
}

// Each pair's slots of messages by NVLink are where all hosts find them, and before those of
// connections.
void expect_fabric_messages(const GpuPlan& found, const ConnectionLayout& here,
                            const ConnectionLayout& first) {
  const FabricMessages &own = here.fabric_messages(), &other = first.fabric_messages();
  const std::uint64_t bytes = found.shape.fabric_message_bytes;
  ASSERT_GT(bytes, 0u);
  for (int to = 0; to < here.ranks(); ++to) {
    std::uint64_t next = FabricMessages::counters_at(here.ranks(), 0);
    for (int from = 0; from < here.ranks(); ++from) {
      if (!own.join(from, to)) continue;
      EXPECT_EQ(own.slots_at(from, to), next) << from << " > " << to;
      EXPECT_EQ(other.slots_at(from, to), next) << from << " > " << to;
      next += bytes;
    }
    EXPECT_EQ(here.fabric_bytes(to) > 0, own.uses(to));
    if (here.fabric_bytes(to) > 0) {
      EXPECT_EQ(own.bytes(to), next);
      EXPECT_GE(here.fabric_bytes(to), next);
    }
    for (const ConnectionLayout::Edge& edge : here.edges())
      for (std::size_t p = 0; p < edge.slots.size(); ++p) {
        if (!edge.in_fabric() || edge.to != to) continue;
        EXPECT_GE(edge.slots[p].offset, next);
        EXPECT_GE(edge.tail[p].offset, next);
      }
  }
}

// Both hosts of a connection by NVLink find it at the same place.
TEST(InternodePlan, LayoutsOfACliquesHostsAgree) {
  for (const std::vector<int>& cliques : {std::vector{5, 5, 5, 5, 5}, {5, 5, 5, 6, 6}, {5, 5, 5}}) {
    const GpuPlan found = joined({0, 0, 1, 2, 3}, cliques);
    std::vector<ConnectionLayout> layouts;
    for (int host = 0; host < 4; ++host)
      layouts.emplace_back(found.shape, found.near,
                           HostsOfRanks{found.host_of, host, found.clique_of});
    int seen = 0;
    const bool shares = found.shape.shares_fabric;
    EXPECT_EQ(shares, found.plan.joined);
    for (const ConnectionLayout& here : layouts)
      for (int r = 0; r < 5 && shares; ++r) {
        const ConnectionLayout& first = layouts.front();
        EXPECT_EQ(here.fabric_bytes(r), first.fabric_bytes(r));
        EXPECT_EQ(here.push_lines_at(r).block, ConnectionLayout::kFabric);
        EXPECT_EQ(here.push_lines_at(r).offset, first.push_lines_at(r).offset);
        EXPECT_EQ(here.arrivals_at(r).offset, first.arrivals_at(r).offset);
        EXPECT_EQ(here.shared_at(r).offset, first.shared_at(r).offset);
        EXPECT_LT(here.shared_at(r).offset, here.fabric_bytes(r));
      }
    for (const ConnectionLayout& here : layouts)
      for (const ConnectionLayout::Edge& edge : here.edges()) {
        const int from = found.host_of[edge.from], to = found.host_of[edge.to];
        const bool joins = from != to && found.clique_of[edge.from] >= 0 &&
                           found.clique_of[edge.from] == found.clique_of[edge.to];
        ASSERT_EQ(edge.in_fabric(), joins) << edge.from << " > " << edge.to;
        ASSERT_EQ(edge.crosses(), from != to && !joins);
        if (!joins) continue;
        ++seen;
        for (const int host : {from, to}) {
          const auto& others = layouts[static_cast<std::size_t>(host)].edges();
          const auto there = std::find_if(others.begin(), others.end(), [&](const auto& other) {
            return other.from == edge.from && other.to == edge.to && other.lane == edge.lane &&
                   other.channel == edge.channel;
          });
          ASSERT_NE(there, others.end());
          const auto& of = layouts[static_cast<std::size_t>(host)];
          EXPECT_EQ(of.fabric_bytes(edge.to), here.fabric_bytes(edge.to));
          for (std::size_t p = 0; p < edge.slots.size(); ++p) {
            EXPECT_EQ(there->slots[p].home, edge.to);
            EXPECT_EQ(there->head[p].home, edge.from);
            EXPECT_EQ(there->slots[p].block, ConnectionLayout::kFabric);
            EXPECT_EQ(there->slots[p].offset, edge.slots[p].offset);
            EXPECT_EQ(there->tail[p].offset, edge.tail[p].offset);
            EXPECT_EQ(there->head[p].offset, edge.head[p].offset);
            EXPECT_LT(there->tail[p].offset, of.fabric_bytes(edge.to));
          }
        }
      }
    EXPECT_GT(seen, 0);
    for (const ConnectionLayout& here : layouts) expect_fabric_messages(found, here, layouts[0]);
  }
}

}  // namespace
}  // namespace rondo::gpu
