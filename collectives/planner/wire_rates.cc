// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/wire_rates.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <string>
#include <vector>

#include "base/double_tree.h"
#include "collectives/planner/device_costs.h"
#include "kernels/algorithms/rerooted_tree.h"
#include "topology/channels/cluster.h"

namespace rondo::gpu {
namespace {

using topology::ClusterHost;
using topology::ClusterRing;
using topology::Wires;

// Load of each wire of a host, in multiples of the traffic of one edge.
class Load {
 public:
  explicit Load(const Wires& wires)
      : wires_(wires), of_wire_(static_cast<std::size_t>(wires.count())) {}

  void add(Wires::Route route) {
    for (const int wire : route) of_wire_[static_cast<std::size_t>(wire)] += 1;
  }
  void add(const Load& other) {
    for (std::size_t w = 0; w < of_wire_.size(); ++w) of_wire_[w] += other.of_wire_[w];
  }
  // Rate of an edge while all are in use; 0: no traffic.
  double edge_gbs() const {
    double longest = 0;
    for (int w = 0; w < wires_.count(); ++w)
      longest = std::max(longest, of_wire_[static_cast<std::size_t>(w)] / data_gbs(wires_, w));
    return longest > 0 ? 1 / longest : 0;
  }

 private:
  const Wires& wires_;
  std::vector<double> of_wire_;
};

// Maximum number of hosts whose part in the trees is computed: each costs all edges.
constexpr std::size_t kMaxTreeHosts = 4;

void lower(double* minimum, double gbs) {
  if (gbs > 0 && (*minimum == 0 || gbs < *minimum)) *minimum = gbs;
}

class HostWires {
 public:
  explicit HostWires(const ClusterHost& host)
      : host_(&host), wires_(*host.graph, host.gpus, host.nics) {}

  const ClusterHost& host() const { return *host_; }

  // Adds all rings at once. `h`: this host's number in the plan.
  void add_rings(const topology::ClusterPlan& plan, std::size_t h, WireRates* rates) {
    Load load(wires_);
    for (const ClusterRing& ring : plan.rings) {
      const std::vector<int> way = way_through(ring);
      const std::size_t hosts = ring.crossings.size();
      const std::size_t hops = hosts > 0 ? way.size() - 1 : way.size();
      for (std::size_t i = 0; i < hops; ++i) {
        const Wires::Route route = wires_.between(way[i], way[(i + 1) % way.size()]);
        load.add(route);
        rates->rings_by_nvlink = rates->rings_by_nvlink && by_nvlink(wires_, route);
      }
      if (hosts == 0) continue;
      load.add(wires_.in(port(ring.crossings[(h + hosts - 1) % hosts].in), way.front()));
      load.add(wires_.out(way.back(), port(ring.crossings[h].out)));
    }
    lower(&rates->ring_gbs, load.edge_gbs());
  }

  // Adds the trees' traffic of all rings on this host. `host_of`, `place_of`: by rank; the latter
  // is the place among the GPUs of its host.
  void add_trees(const topology::ClusterPlan& plan, int own, const std::vector<int>& host_of,
                 const std::vector<int>& place_of, WireRates* rates) const {
    Load up(wires_), down(wires_), from_first(wires_), to_first(wires_);
    for (std::size_t r = 0; r < plan.rings.size(); ++r) {
      const std::vector<int>& order = plan.rings[r].ranks;
      const int n = static_cast<int>(order.size());
      const auto add = [&](int from_at, int to_at, Load* load) {
        const auto from = static_cast<std::size_t>(order[static_cast<std::size_t>(from_at)]);
        const auto to = static_cast<std::size_t>(order[static_cast<std::size_t>(to_at)]);
        const int ring = static_cast<int>(r), place = place_of[from], to_place = place_of[to];
        if (host_of[from] == own && host_of[to] == own) {
          load->add(wires_.between(place, to_place));
        } else if (host_of[from] == own) {
          load->add(wires_.out(place, nearest_port(wires_, place, ring)));
        } else if (host_of[to] == own) {
          load->add(wires_.in(nearest_port(wires_, to_place, ring), to_place));
        }
      };
      const int root = static_cast<int>(std::find(order.begin(), order.end(), 0) - order.begin());
      for (int at = 0; at < n; ++at)
        for (const int tree : {0, 1}) {
          if (const int parent = double_tree(at, n, tree).parent; parent != kNoRank) {
            add(at, parent, &up);
            add(parent, at, &down);
          }
          if (at == root) continue;
          add(rerooted_double_tree(at, root, n, tree).parent, at, &from_first);
          add(at, rerooted_double_tree(at, root, n, tree_to_root(root, n, tree)).parent, &to_first);
        }
    }
    // An edge carries the part of one of a ring's two trees.
    const double parts = 2 * static_cast<double>(plan.rings.size());
    lower(&rates->tree_gbs, parts * up.edge_gbs());
    lower(&rates->tree_gbs, parts * down.edge_gbs());
    up.add(down);
    lower(&rates->both_gbs, parts * up.edge_gbs());
    lower(&rates->broadcast_gbs, parts * from_first.edge_gbs());
    lower(&rates->reduce_gbs, parts * to_first.edge_gbs());
  }

  void add_direct(WireRates* rates) {
    Load load(wires_);
    for (int a = 0; a < wires_.gpus(); ++a)
      for (int b = 0; b < wires_.gpus(); ++b) {
        if (a == b) continue;
        load.add(wires_.between(a, b));
        rates->all_by_nvlink = rates->all_by_nvlink && by_nvlink(wires_, wires_.between(a, b));
      }
    lower(&rates->direct_gbs, load.edge_gbs() * (wires_.gpus() - 1));
  }

 private:
  // Places of this host's GPUs, in the ring's order.
  std::vector<int> way_through(const ClusterRing& ring) const {
    std::vector<int> way;
    for (const int rank : ring.ranks) {
      const auto at = std::find(host_->ranks.begin(), host_->ranks.end(), rank);
      if (at != host_->ranks.end()) way.push_back(static_cast<int>(at - host_->ranks.begin()));
    }
    return way;
  }
  int port(int node) const {
    return static_cast<int>(std::find(host_->nics.begin(), host_->nics.end(), node) -
                            host_->nics.begin());
  }

  const ClusterHost* host_;
  Wires wires_;
};

// The channel search treats such hosts the same.
bool same_kind(const ClusterHost& a, const ClusterHost& b) {
  return a.graph == b.graph && a.gpus == b.gpus && a.nics == b.nics;
}

}  // namespace

WireRates wire_rates(std::span<const ClusterHost> hosts, const topology::ClusterPlan& plan) {
  WireRates rates;
  if (plan.rings.empty()) return rates;
  rates.rings = static_cast<int>(plan.rings.size());
  rates.rings_by_nvlink = rates.all_by_nvlink = true;
  assert(!hosts.empty());
  std::vector<int> host_of(plan.rings.front().ranks.size()), place_of(host_of.size());
  std::vector<HostWires> kinds;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    for (std::size_t i = 0; i < hosts[h].ranks.size(); ++i) {
      const auto rank = static_cast<std::size_t>(hosts[h].ranks[i]);
      host_of[rank] = static_cast<int>(h);
      place_of[rank] = static_cast<int>(i);
    }
    const auto known = [&](const HostWires& kind) { return same_kind(kind.host(), hosts[h]); };
    if (std::any_of(kinds.begin(), kinds.end(), known)) continue;
    kinds.emplace_back(hosts[h]);
    kinds.back().add_rings(plan, h, &rates);
    kinds.back().add_direct(&rates);
  }
  for (std::size_t h = 0; h < std::min(hosts.size(), kMaxTreeHosts); ++h)
    for (const HostWires& kind : kinds)
      if (same_kind(kind.host(), hosts[h]))
        kind.add_trees(plan, static_cast<int>(h), host_of, place_of, &rates);
  return rates;
}

double network_gbs(const topology::Graph& graph, std::span<const int> nics) {
  struct Adapter {
    double ports = 0, link = 0;
  };
  std::map<std::string, Adapter> adapters;  // by PCI device: its functions share one link
  for (const int nic : nics) {
    const topology::GraphNode& node = graph.node(nic);
    if (node.port_gbs <= 0) return 0;
    Adapter& adapter = adapters[node.bus_id.substr(0, node.bus_id.rfind('.'))];
    adapter.ports += node.port_gbs * kPortEfficiency;
    const topology::GraphLink* const up = graph.up(nic);
    if (up == nullptr || node.bus_id.empty()) continue;
    adapter.link = std::max(adapter.link, up->gbs * wire_efficiency(up->kind, 0));
  }
  double gbs = 0;
  for (const auto& [device, adapter] : adapters)
    gbs += adapter.link > 0 ? std::min(adapter.ports, adapter.link) : adapter.ports;
  return gbs;
}

int usual_channels(const WireRates& rates, std::uint64_t ring_slot_bytes,
                   const DeviceCosts& costs) {
  assert(ring_slot_bytes > 0);
  const double cta_gbs = ring_cta_gbs(ring_slot_bytes, costs);
  int channels = kUsualChannels;
  while (channels < kMaxUsualChannels && channels * cta_gbs < rates.rings * rates.ring_gbs)
    ++channels;
  return channels;
}

int nearest_port(const Wires& wires, int gpu, int ring) {
  assert(wires.nics() > 0 && gpu >= 0 && gpu < wires.gpus() && ring >= 0);
  // Equally near ports are distributed over GPUs and rings.
  std::vector<int> nearest;
  std::size_t hops = 0;
  for (int port = 0; port < wires.nics(); ++port) {
    const std::size_t away = wires.out(gpu, port).size();
    if (!nearest.empty() && away > hops) continue;
    if (nearest.empty() || away < hops) nearest.clear();
    nearest.push_back(port);
    hops = away;
  }
  return nearest[static_cast<std::size_t>(gpu + ring) % nearest.size()];
}

double data_gbs(const Wires& wires, int wire) {
  assert(wire >= 0 && wire < wires.count());
  const Wires::Ends ends = wires.ends(wire);
  if (ends.from == Wires::kNetwork || ends.to == Wires::kNetwork)
    return wires.gbs(wire) * kPortEfficiency;
  const topology::Graph& graph = wires.graph();
  const topology::GraphLink* const link = graph.between(ends.from, ends.to);
  const int compute = std::max(graph.node(ends.from).compute, graph.node(ends.to).compute);
  return wires.gbs(wire) *
         wire_efficiency(link != nullptr ? link->kind : topology::GraphLinkKind::kPci, compute);
}

bool by_nvlink(const Wires& wires, std::span<const int> route) {
  return std::all_of(route.begin(), route.end(), [&](int wire) {
    const Wires::Ends ends = wires.ends(wire);
    if (ends.from == Wires::kNetwork || ends.to == Wires::kNetwork) return false;
    const topology::GraphLink* const link = wires.graph().between(ends.from, ends.to);
    return link != nullptr && link->kind == topology::GraphLinkKind::kNvLink;
  });
}

}  // namespace rondo::gpu
