// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/call_links.h"

#include <algorithm>

namespace rondo::gpu {
namespace {

LinkClass near_of(const DevicePlanFacts& facts) {
  if (facts.devices == 1 && facts.hosts == 1) return LinkClass::kOwn;
  return facts.all_reach || facts.hosts > 1 ? LinkClass::kNvLink : LinkClass::kPci;
}

// Measured links of a host take precedence over its graph.
bool is_measured(const DevicePlanFacts& facts) {
  return !facts.crosses() &&
         facts.costs.is_measured(facts.all_reach || facts.joined ? DeviceRate::kPeerByte
                                                                 : DeviceRate::kHostByte);
}

}  // namespace

CallLinks links_of(const DevicePlanFacts& facts) {
  CallLinks links;
  const bool several = facts.crosses();
  links.near = links.near_all = near_of(facts);
  const bool own = links.near == LinkClass::kOwn;
  links.direct_gbs = link_gbs(links.near, facts.costs) / (own ? facts.ranks : 1);
  links.port_gbs = link_gbs(LinkClass::kNetwork, facts.costs);
  links.rings = several ? std::max(facts.rings, 1) : 1;
  links.ring_gbs = several ? links.port_gbs : links.direct_gbs;
  // A rank sends its half to two children in one of the trees, and up to its parent; so does a
  // host.
  links.tree_gbs = several ? links.rings * links.port_gbs : links.direct_gbs;
  links.both_gbs = links.tree_gbs / 2;
  const WireRates& wires = facts.wires;
  if (wires.rings == 0 || own || is_measured(facts)) return links;
  links.near = wires.rings_by_nvlink ? LinkClass::kNvLink : LinkClass::kPci;
  links.near_all = wires.all_by_nvlink ? LinkClass::kNvLink : LinkClass::kPci;
  links.rings = wires.rings;
  links.ring_gbs = wires.ring_gbs;
  if (several) links.port_gbs = wires.ring_gbs;
  links.tree_gbs = wires.tree_gbs;
  links.both_gbs = wires.both_gbs;
  links.broadcast_gbs = wires.broadcast_gbs;
  links.reduce_gbs = wires.reduce_gbs;
  if (wires.direct_gbs > 0) links.direct_gbs = wires.direct_gbs;
  return links;
}

}  // namespace rondo::gpu
