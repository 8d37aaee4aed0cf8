// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/paths.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <string>

namespace rondo::topology {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"LOC", "NVL", "NVB", "C2C", "PIX",
                                                     "PXB", "P2C", "PHB", "SYS", "NET"};

// The path over `nodes`; its rate is that of its slowest link.
Path along(const Graph& graph, PathClass kind, std::vector<int> nodes) {
  assert(!nodes.empty());
  Path path{kind, 0, std::move(nodes), nullptr};
  for (std::size_t i = 1; i < path.nodes.size(); ++i) {
    const GraphLink* link = graph.between(path.nodes[i - 1], path.nodes[i]);
    if (link == nullptr || link->gbs <= 0) continue;
    if (path.slowest == nullptr || link->gbs < path.slowest->gbs) path.slowest = link;
  }
  if (path.slowest != nullptr) path.gbs = path.slowest->gbs;
  return path;
}

bool nvlink(const Graph& graph, int a, int b) {
  const GraphLink* link = graph.between(a, b);
  return link != nullptr && link->kind == GraphLinkKind::kNvLink;
}

// The GPU with NVLinks to both, with the highest rate; -1: there is none.
int gpu_between(const Graph& graph, int from, int to) {
  int best = -1;
  double maximum = 0;
  for (const int gpu : graph.gpus()) {
    if (gpu == from || gpu == to || !nvlink(graph, from, gpu) || !nvlink(graph, gpu, to)) continue;
    const double gbs = std::min(graph.between(from, gpu)->gbs, graph.between(gpu, to)->gbs);
    if (best < 0 || gbs > maximum) best = gpu, maximum = gbs;
  }
  return best;
}

// From a device up to its NUMA node, with both ends; by C2C if the device has it.
std::vector<int> way_up(const Graph& graph, int node, bool* c2c) {
  std::vector<int> way = {node};
  const bool device = graph.node(node).kind != NodeKind::kNuma;
  for (const GraphLink& link : graph.links()) {
    if (!device || link.kind != GraphLinkKind::kC2c || (link.from != node && link.to != node))
      continue;
    *c2c = true;
    way.push_back(link.from == node ? link.to : link.from);
    return way;
  }
  while (graph.node(way.back()).kind != NodeKind::kNuma && graph.above(way.back()) >= 0) {
    way.push_back(graph.above(way.back()));
  }
  return way;
}

PathClass through_numa(const Graph& graph, int from, int to, bool c2c_from, bool c2c_to) {
  const bool to_cpu =
      graph.node(from).kind == NodeKind::kNuma || graph.node(to).kind == NodeKind::kNuma;
  if (to_cpu && (c2c_from || c2c_to)) return PathClass::kC2c;
  return c2c_from != c2c_to ? PathClass::kP2c : PathClass::kPhb;
}

}  // namespace

Path path_over_pci(const Graph& graph, int from, int to) {
  bool c2c_from = false, c2c_to = false;
  std::vector<int> up = way_up(graph, from, &c2c_from);
  std::vector<int> down = way_up(graph, to, &c2c_to);
  const int root = up.back(), other = down.back();
  if (graph.node(root).kind != NodeKind::kNuma || graph.node(other).kind != NodeKind::kNuma) {
    return {};  // an NVSwitch has no parent
  }
  PathClass kind = PathClass::kSys;
  if (root == other) {
    // Down to the last node that both paths share.
    int meeting = root;
    while (!up.empty() && !down.empty() && up.back() == down.back()) {
      meeting = up.back();
      up.pop_back();
      down.pop_back();
    }
    up.push_back(meeting);
    const bool switches = graph.node(meeting).kind == NodeKind::kBridge;
    const bool several = up.size() + down.size() > 3;  // more than device, switch, device
    kind = switches ? (several ? PathClass::kPxb : PathClass::kPix)
                    : through_numa(graph, from, to, c2c_from, c2c_to);
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return along(graph, kind, std::move(up));
}

std::string_view name(PathClass kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<PathClass> parse_path_class(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto found = std::find(kNames.begin(), kNames.end(), upper);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<PathClass>(found - kNames.begin());
}

Path path_between(const Graph& graph, int from, int to) {
  assert(from >= 0 && to >= 0);
  if (from == to) return {PathClass::kLoc, 0, {from}, nullptr};
  if (nvlink(graph, from, to)) return along(graph, PathClass::kNvl, {from, to});
  const int nvswitch = graph.nvswitch();
  if (nvswitch >= 0 && nvlink(graph, from, nvswitch) && nvlink(graph, nvswitch, to)) {
    return along(graph, PathClass::kNvl, {from, nvswitch, to});
  }
  const bool gpus =
      graph.node(from).kind == NodeKind::kGpu && graph.node(to).kind == NodeKind::kGpu;
  if (const int gpu = gpus ? gpu_between(graph, from, to) : -1; gpu >= 0) {
    return along(graph, PathClass::kNvb, {from, gpu, to});
  }
  return path_over_pci(graph, from, to);
}

}  // namespace rondo::topology
