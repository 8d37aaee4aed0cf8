// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/channel_orders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <span>

#include "base/env.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text_file.h"
#include "kernels/algorithms/rerooted_tree.h"
#include "topology/channels/cluster.h"

namespace rondo::gpu {
namespace {

constexpr int kMaxRoots = 64;  // bits of DevicePlanFacts::tree_roots

bool is_by_number(const std::vector<int>& ranks) {
  return std::is_sorted(ranks.begin(), ranks.end());
}

class Digest {
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x9e3779b97f4a7c15 + (value_ >> 29); }
  void add(const WireRates& rates) {
    add(static_cast<std::uint64_t>(rates.rings));
    for (const double gbs : {rates.ring_gbs, rates.tree_gbs, rates.both_gbs, rates.broadcast_gbs,
                             rates.reduce_gbs, rates.direct_gbs})
      add(std::bit_cast<std::uint64_t>(gbs));
    add(std::uint64_t{rates.rings_by_nvlink} << 1 | std::uint64_t{rates.all_by_nvlink});
  }
  void add(const topology::NicName& nic) {
    for (const std::string& text : {nic.device, nic.bus_id}) {
      add(text.size());
      for (const char c : text) add(static_cast<unsigned char>(c));
    }
    add(static_cast<std::uint64_t>(nic.port));
  }
  std::uint64_t value() const { return value_ | 1; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string text_of(const topology::NicName& nic) {
  const std::string name = nic.device.empty() ? nic.bus_id : nic.device;
  return nic.port > 0 ? fmt::format("{}:{}", name, nic.port) : name;
}

// Limits of a ring's line in logs.
constexpr std::size_t kMaxNamedRanks = 64, kMaxNamedHosts = 8;

std::string and_more(std::size_t all, std::size_t named) {
  return all > named ? fmt::format(" and {} more", all - named) : std::string();
}

}  // namespace

bool ChannelOrders::permutes() const {
  return std::any_of(rings.begin(), rings.end(),
                     [](const Ring& ring) { return !is_by_number(ring.ranks); });
}

std::uint64_t ChannelOrders::digest() const {
  if (rings.empty() && rates == WireRates{}) return 0;
  Digest digest;
  digest.add(rates);
  for (const Ring& ring : rings) {
    digest.add(ring.ranks.size());
    for (const int rank : ring.ranks) digest.add(static_cast<std::uint64_t>(rank));
    for (const Ports& ports : ring.ports) {
      digest.add(ports.in);
      digest.add(ports.out);
    }
  }
  return digest.value();
}

void ChannelOrders::fill_facts(DevicePlanFacts* facts) const {
  facts->wires = rates;
  facts->permuted = permutes();
  facts->tree_roots = 0;
  if (!facts->permuted) return;
  for (int root = 0; root < std::min(facts->ranks, kMaxRoots); ++root) {
    const bool all_take = std::all_of(rings.begin(), rings.end(), [&](const Ring& ring) {
      const auto at = std::find(ring.ranks.begin(), ring.ranks.end(), root) - ring.ranks.begin();
      return rerooted_tree_takes(static_cast<int>(at), facts->ranks);
    });
    facts->tree_roots |= std::uint64_t{all_take} << root;
  }
}

std::string json_of(const ChannelOrders& orders) {
  Json json{{"gbs", orders.gbs}, {"bound_gbs", orders.bound_gbs}};
  json["channels"] = Json::array();
  for (const ChannelOrders::Ring& ring : orders.rings) {
    Json entry{{"ranks", ring.ranks}};
    for (const ChannelOrders::Ports& ports : ring.ports)
      entry["hosts"].push_back({{"in", text_of(ports.in)}, {"out", text_of(ports.out)}});
    json["channels"].push_back(std::move(entry));
  }
  return json.text(2) + "\n";
}

std::vector<std::string> describe(const ChannelOrders& orders) {
  if (orders.rings.empty()) return {"channels: rank after rank on all"};
  std::vector<std::string> lines{
      fmt::format("channels: {} by the topology, {:.4g} GB/s; the wires allow {:.4g}",
                  counted(orders.rings.size(), "ring"), orders.gbs, orders.bound_gbs)};
  for (std::size_t c = 0; c < orders.rings.size(); ++c) {
    const ChannelOrders::Ring& ring = orders.rings[c];
    const std::span<const int> named(ring.ranks.data(),
                                     std::min(ring.ranks.size(), kMaxNamedRanks));
    lines.push_back(fmt::format("channel {}: ranks {}{}", c, fmt::join(named, " > "),
                                and_more(ring.ranks.size(), kMaxNamedRanks)));
    for (std::size_t h = 0; h < std::min(ring.ports.size(), kMaxNamedHosts); ++h)
      lines.back() += fmt::format("{}host {} {} in, {} out", h == 0 ? "; " : ", ", h,
                                  text_of(ring.ports[h].in), text_of(ring.ports[h].out));
    lines.back() += and_more(ring.ports.size(), kMaxNamedHosts);
  }
  return lines;
}

namespace {

// True if a link of the GPU is known from more than priors or CUDA.
bool has_known_link(const topology::Graph& graph, int gpu) {
  return std::any_of(graph.links().begin(), graph.links().end(), [&](const auto& link) {
    return (link.from == gpu || link.to == gpu) && link.source > topology::Source::kPrior &&
           link.source != topology::Source::kCuda;
  });
}

// Ports that the host's network may use; all ports if no known one is allowed.
std::vector<int> nics_of(const RankPlacement& placement, int host) {
  std::vector<int> nics = admitted_nics(placement, host);
  if (!nics.empty()) return nics;
  const auto all = placement.graphs[static_cast<std::size_t>(host)]->nics();
  return {all.begin(), all.end()};
}

// A host without its ports; nullopt if a rank's GPU or link is not known.
std::optional<topology::ClusterHost> host_at(int h, const RankPlacement& placement,
                                             const HostShape& shape) {
  const topology::Graph& graph = *placement.graphs[static_cast<std::size_t>(h)];
  topology::ClusterHost host;
  host.graph = &graph;
  for (int i = shape.first[h]; i < shape.first[h + 1]; ++i) {
    const int rank = shape.ranks[static_cast<std::size_t>(i)];
    const std::string& bus_id = placement.locations[static_cast<std::size_t>(rank)].gpu;
    const int gpu = bus_id.empty() ? -1 : graph.find(bus_id);
    const bool taken = std::count(host.gpus.begin(), host.gpus.end(), gpu) > 0;
    if (gpu < 0 || taken || !has_known_link(graph, gpu)) return std::nullopt;
    host.gpus.push_back(gpu);
    host.ranks.push_back(rank);
  }
  return host;
}

// By host; empty if a rank's GPU or link, or a host's port, is not known.
std::vector<topology::ClusterHost> hosts_of(const OrdersRequest& request) {
  std::vector<topology::ClusterHost> hosts;
  for (int h = 0; h < request.shape.hosts(); ++h) {
    auto host = host_at(h, *request.placement, request.shape);
    if (!host) return {};
    host->nics = nics_of(*request.placement, h);
    if (request.shape.hosts() > 1 && host->nics.empty()) return {};
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

topology::NicName port_name(const topology::Graph& graph, int nic) {
  const topology::GraphNode& node = graph.node(nic);
  return {node.name, node.port, node.bus_id};
}

ChannelOrders::Ring ring_of(std::span<const topology::Graph* const> graphs,
                            const topology::ClusterRing& found) {
  ChannelOrders::Ring ring{found.ranks};
  for (std::size_t h = 0; h < found.crossings.size(); ++h) {
    const auto& before = found.crossings[(h + graphs.size() - 1) % graphs.size()];
    ring.ports.push_back(
        {port_name(*graphs[h], before.in), port_name(*graphs[h], found.crossings[h].out)});
  }
  return ring;
}

}  // namespace

ChannelOrders find_orders(const OrdersRequest& request) {
  if (request.placement == nullptr) return {};
  const auto hosts = hosts_of(request);
  if (hosts.empty()) return {};
  const auto plan = topology::find_channels(hosts, request.cross_nic, request.max_channels);
  if (!plan.ok()) return {};
  std::vector<const topology::Graph*> graphs;
  for (const topology::ClusterHost& host : hosts) graphs.push_back(host.graph);
  ChannelOrders orders = orders_of(*plan, graphs);
  orders.rates = wire_rates(hosts, *plan);
  return orders;
}

ChannelOrders orders_of(const topology::ClusterPlan& plan,
                        std::span<const topology::Graph* const> graphs) {
  ChannelOrders orders;
  for (const topology::ClusterRing& ring : plan.rings)
    orders.rings.push_back(ring_of(graphs, ring));
  if (graphs.size() == 1 && !orders.permutes()) return {};
  orders.gbs = plan.gbs();
  orders.bound_gbs = plan.bound_gbs;
  return orders;
}

ChannelOrders find_orders(const RankPlacement* placement, const HostShape& shape, int max_ctas,
                          int rank) {
  std::int64_t cross_nic = env::get_int("NCCL_CROSS_NIC");
  if (cross_nic < 0 || cross_nic > 2) {
    RONDO_WARN("NCCL_CROSS_NIC={} is not 0, 1 or 2: using 2", cross_nic);
    cross_nic = 2;
  }
  ChannelOrders orders = find_orders({placement, shape, max_ctas, static_cast<int>(cross_nic)});
  const std::string path = env::get_string("NCCL_GRAPH_DUMP_FILE");
  if (!path.empty() && env::get_int("NCCL_GRAPH_DUMP_FILE_RANK") == rank) {
    const Status written = write_output(path, json_of(orders));
    if (!written.ok()) RONDO_WARN("NCCL_GRAPH_DUMP_FILE: {}", written.error().text);
  }
  if (rank == 0)
    for (const std::string& line : describe(orders)) RONDO_INFO(kGraph, "{}", line);
  return orders;
}

bool wants_fabric() {
  return env::get_int("NCCL_MNNVL_ENABLE") == 1 && !env::get_bool("NCCL_P2P_DISABLE");
}

ChannelOrders find_joined_orders(const RankPlacement& placement, const HostShape& shape,
                                 int max_ctas) {
  auto host = host_at(0, placement, shape);
  if (!host || host->gpus.size() < 2) return {};
  std::iota(host->ranks.begin(), host->ranks.end(), 0);  // as if it were alone
  const std::vector<topology::ClusterHost> alone{std::move(*host)};
  const auto plan = topology::find_channels(alone, /*cross_nic=*/2, max_ctas);
  ChannelOrders orders;
  if (plan.ok()) orders.rates = wire_rates(alone, *plan);
  return orders;
}

topology::NearNics near_by_orders(const ChannelOrders& orders, const HostShape& shape, int rank,
                                  topology::NearNics near) {
  const auto host = static_cast<std::size_t>(shape.host_of(rank));
  topology::NicTier tier{topology::PathClass::kLoc};
  const auto add = [&](const topology::NicName& nic) {
    if (std::find(tier.nics.begin(), tier.nics.end(), nic) != tier.nics.end()) return;
    tier.nics.push_back(nic);
    tier.kind = std::max(tier.kind, topology::class_of(near, nic));
  };
  const auto is_here = [&](int other) { return shape.host_of(other) == static_cast<int>(host); };
  for (const ChannelOrders::Ring& ring : orders.rings) {
    if (ring.ports.empty()) continue;
    const std::size_t n = ring.ranks.size();
    const auto at = static_cast<std::size_t>(std::find(ring.ranks.begin(), ring.ranks.end(), rank) -
                                             ring.ranks.begin());
    if (!is_here(ring.ranks[(at + 1) % n])) add(ring.ports[host].out);
    if (!is_here(ring.ranks[(at + n - 1) % n])) add(ring.ports[host].in);
  }
  if (!tier.nics.empty()) near.tiers.insert(near.tiers.begin(), std::move(tier));
  return near;
}

}  // namespace rondo::gpu
