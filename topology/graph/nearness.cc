// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/nearness.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <tuple>

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

Result<NicFilter::Name> parse_nic_name(std::string_view item, std::string_view text) {
  NicFilter::Name name{std::string(take_until(item, ':'))};
  const std::string_view digits = take_until(item, ':');
  if (name.device.empty())
    return fail(StatusCode::kInvalidUsage,
                "NCCL_IB_HCA='{}' has an empty name: use device[:port],...", text);
  if (digits.empty()) return name;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), name.port).ptr;
  if (end != digits.data() + digits.size() || name.port < 1 || name.port > 255)
    return fail(
        StatusCode::kInvalidUsage,
        "NCCL_IB_HCA='{}': the port '{}' is not a number from 1 to 255; use device[:port],...",
        text, digits);
  return name;
}

}  // namespace

Result<NicFilter> NicFilter::parse(std::string_view text) {
  NicFilter filter;
  std::string_view rest = text;
  filter.excludes_ = rest.starts_with('^');
  if (filter.excludes_) rest.remove_prefix(1);
  filter.exact_ = rest.starts_with('=');
  if (filter.exact_) rest.remove_prefix(1);
  while (!rest.empty()) {
    RONDO_TRY(filter.names_.emplace_back(), parse_nic_name(take_until(rest, ','), text));
  }
  return filter;
}

bool NicFilter::fits(const Name& name, std::string_view device, int port) const {
  if (name.port != 0 && port != 0 && name.port != port) return false;
  return exact_ ? device == name.device : device.starts_with(name.device);
}

bool NicFilter::admits(std::string_view device, int port) const {
  if (names_.empty()) return true;
  const bool named = std::any_of(names_.begin(), names_.end(),
                                 [&](const Name& name) { return fits(name, device, port); });
  return named != excludes_;
}

namespace {

PathClass class_of(const Graph& graph, int from, int to) {
  return from < 0 || to < 0 ? PathClass::kSys : path_between(graph, from, to).kind;
}

int node_of(const Graph& graph, const DeviceLocation& location) {
  if (const int gpu = location.gpu.empty() ? -1 : graph.find(location.gpu); gpu >= 0) return gpu;
  for (const int numa : graph.numa_nodes())
    if (location.numa >= 0 && graph.node(numa).number == location.numa) return numa;
  return -1;
}

// GB/s: the lower rate of the port and the path to it; 0: unknown.
double rate_of(const GraphNode& nic, const Path& path) {
  if (nic.port_gbs <= 0 || path.gbs <= 0) return std::max(nic.port_gbs, path.gbs);
  return std::min(nic.port_gbs, path.gbs);
}

std::vector<NicTier> tiers_of(const Graph& graph, const DeviceLocation& location) {
  struct Reached {
    PathClass kind;
    double rate;
    int nic;
  };
  const int from = node_of(graph, location);
  std::vector<Reached> all;
  for (const int nic : graph.nics()) {
    const Path path = from < 0 ? Path{PathClass::kSys} : path_between(graph, from, nic);
    all.push_back({path.kind, rate_of(graph.node(nic), path), nic});
  }
  const auto place = [](const Reached& one) { return std::tuple(one.kind, -one.rate); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Reached& a, const Reached& b) { return place(a) < place(b); });
  std::vector<NicTier> tiers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || place(all[i]) != place(all[i - 1])) tiers.push_back({all[i].kind});
    const GraphNode& node = graph.node(all[i].nic);
    tiers.back().nics.push_back({node.name, node.port, node.bus_id});
  }
  return tiers;
}

}  // namespace

PathClass class_between(const Graph& graph, std::string_view bus_id, std::string_view other) {
  return class_of(graph, graph.find(bus_id), graph.find(other));
}

NearNics near_nics(const Graph& graph, std::span<const DeviceLocation> locations, int mine) {
  assert(mine >= 0 && static_cast<std::size_t>(mine) < locations.size());
  NearNics near{tiers_of(graph, locations[static_cast<std::size_t>(mine)]), mine};
  for (int before = 0; before < mine; ++before) {
    const auto theirs = tiers_of(graph, locations[static_cast<std::size_t>(before)]);
    for (std::size_t t = 0; t < std::min(theirs.size(), near.tiers.size()); ++t)
      if (theirs[t].nics == near.tiers[t].nics) ++near.tiers[t].turn;
  }
  return near;
}

bool is_same(const NicName& a, const NicName& b) {
  if (!a.bus_id.empty() && a.bus_id == b.bus_id) return true;
  return !a.device.empty() && a.device == b.device &&
         (a.port == 0 || b.port == 0 || a.port == b.port);
}

PathClass class_of(const NearNics& near, const NicName& nic) {
  for (const NicTier& tier : near.tiers)
    for (const NicName& one : tier.nics)
      if (is_same(one, nic)) return tier.kind;
  return PathClass::kSys;
}

}  // namespace rondo::topology
