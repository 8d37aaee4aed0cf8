// SPDX-License-Identifier: Apache-2.0
#include "collectives/model/ways.h"

#include <algorithm>

#include "collectives/gpu/plan/channel_orders.h"
#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/gpu/plan/gpu_plan.h"
#include "collectives/model/message_call.h"
#include "collectives/planner/call_links.h"
#include "collectives/planner/device_costs.h"
#include "collectives/planner/device_strategies.h"

namespace rondo::model {

using cuda::Protocol;
using gpu::DevicePlan;
using gpu::DevicePlanFacts;

DevicePlanFacts facts_of(const GpuCluster& cluster) {
  DevicePlanFacts facts =
      cluster.is_joined() ? gpu::usual_joined_facts(cluster.ranks(), cluster.hosts())
      : cluster.hosts() > 1
          ? gpu::usual_internode_facts(cluster.ranks(), cluster.hosts(),
                                       static_cast<int>(cluster.channels().rings.size()))
          : gpu::usual_facts(cluster.ranks(), cluster.ranks(), /*all_reach=*/true,
                             /*processes=*/true);
  facts.multicast = cluster.has_multicast();
  gpu::ChannelOrders orders;
  for (const topology::ClusterRing& ring : cluster.channels().rings)
    orders.rings.push_back({ring.ranks, {}});
  orders.rates = cluster.rates();
  orders.fill_facts(&facts);
  if (!facts.crosses())
    facts.max_channels = gpu::usual_channels(facts.wires, facts.ring_slot_bytes, facts.costs);
  facts.direct_ctas = gpu::direct_ctas(gpu::links_of(facts).direct_gbs, facts.costs);
  return facts;
}

namespace {

DevicePlanFacts limited_to(DevicePlanFacts facts, Collective collective, std::uint16_t algorithms,
                           Protocol protocol) {
  facts.algorithms.allowed[static_cast<std::size_t>(collective) - 1] = algorithms;
  facts.protocols = gpu::bit_of(protocol);
  return facts;
}

constexpr std::uint16_t bit(Algorithm algorithm) {
  return static_cast<std::uint16_t>(1 << static_cast<int>(algorithm));
}

bool has_ways(Collective collective) {
  return collective >= Collective::kAllReduce && collective <= Collective::kReduceScatter;
}

bool same(const DevicePlan& a, const DevicePlan& b) {
  return a.strategy == b.strategy && a.algorithm == b.algorithm && a.protocol == b.protocol;
}

bool is_simulated(const DevicePlan& plan) {
  return row_of(plan).traits.simulation != gpu::Simulation::kNone;
}

// Messages, and on one host a direct kernel on staging if the call fits there.
std::vector<Way> ways_of_messages(const GpuCluster& cluster, const CallRecord& record) {
  const DevicePlan messages = gpu::plan_of_messages();
  if (record.collective == Collective::kSend) return {{"messages", messages, true}};
  const auto usual = gpu::make_device_plan(facts_of(cluster), record);
  if (!usual.ok()) return {};
  std::vector<Way> ways{{"messages", messages, same(*usual, messages)}};
  if (row_of(*usual).traits.simulation == gpu::Simulation::kStaged)
    ways.push_back({"direct", *usual, true});
  return ways;
}

}  // namespace

std::vector<Way> ways_of(const GpuCluster& cluster, const CallRecord& record,
                         const Wishes& wishes) {
  std::vector<Way> ways;
  if (record.count == 0) return ways;
  if (is_of_messages(record.collective)) return ways_of_messages(cluster, record);
  if (!has_ways(record.collective)) return ways;
  const DevicePlanFacts facts = facts_of(cluster);
  DevicePlanFacts wished = facts;
  wished.algorithms = wishes.algorithms;
  wished.protocols &= wishes.protocols;
  const auto usual = gpu::make_device_plan(wished, record);
  const auto add = [&](std::uint16_t algorithms, Protocol protocol, std::string_view name) {
    if ((facts.protocols & gpu::bit_of(protocol)) == 0) return;
    const auto plan =
        gpu::make_device_plan(limited_to(facts, record.collective, algorithms, protocol), record);
    if (!plan.ok() || !is_simulated(*plan)) return;
    const auto known = [&](const Way& way) { return same(way.plan, *plan); };
    if (std::any_of(ways.begin(), ways.end(), known)) return;
    ways.push_back({std::string(name), *plan, usual.ok() && same(*usual, *plan)});
  };
  for (int a = 0; a < kAlgorithmCount; ++a)
    if (const auto algorithm = static_cast<Algorithm>(a);
        has_rows(algorithm, Verbs::kPrimitives, Where::kGpu))
      for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple})
        add(bit(algorithm), protocol, rondo::name(algorithm));
  const bool sums = record.collective == Collective::kAllReduce;
  add(bit(Algorithm::kOneShot) | bit(Algorithm::kDirect), Protocol::kLL, sums ? "oneshot" : "push");
  add(bit(Algorithm::kTwoShot) | bit(Algorithm::kDirect), Protocol::kSimple,
      sums ? "twoshot" : "direct");
  add(bit(Algorithm::kNvls), Protocol::kSimple, rondo::name(Algorithm::kNvls));
  return ways;
}

}  // namespace rondo::model
