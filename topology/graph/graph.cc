// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <tuple>

#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

constexpr auto kNumber = [](auto value) { return static_cast<int>(value); };

auto order_of(const GraphNode& node) {
  return std::tuple(kNumber(node.kind), node.bus_id, node.port, node.number, node.name);
}

auto order_of(const GraphLink& link) { return std::tuple(link.from, link.to, kNumber(link.kind)); }

// FNV-1a, 64 bits.
void add_to(std::uint64_t& digest, std::string_view text) {
  for (const char c : text) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
}

std::uint64_t digest_of(const Graph& graph) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const GraphNode& node : graph.nodes()) {
    add_to(digest, fmt::format("{} {} {} {} {} {} {} {:.9g} {}\n", kNumber(node.kind), node.bus_id,
                               node.name, node.number, node.port, node.compute, node.instances,
                               node.port_gbs, to_text(node.cpus)));
  }
  for (const GraphLink& link : graph.links()) {
    add_to(digest, fmt::format("{} {} {} {:.9g} {}\n", link.from, link.to, kNumber(link.kind),
                               link.gbs, link.count));
  }
  const CpuModel& cpu = graph.cpu();
  add_to(digest, fmt::format("{} {} {} {}\n", cpu.arch, cpu.vendor, cpu.family, cpu.model));
  return digest;
}

bool hangs(const GraphNode& node) {
  return node.kind != NodeKind::kNuma && node.kind != NodeKind::kNvSwitch;
}

// Sorts the nodes, renumbers the ends of links, and sorts the links.
void put_in_order(std::vector<GraphNode>& nodes, std::vector<GraphLink>& links) {
  std::vector<int> old(nodes.size());
  for (std::size_t i = 0; i < old.size(); ++i) old[i] = kNumber(i);
  std::stable_sort(old.begin(), old.end(), [&](int a, int b) {
    return order_of(nodes[static_cast<std::size_t>(a)]) <
           order_of(nodes[static_cast<std::size_t>(b)]);
  });
  std::vector<int> now(old.size());
  std::vector<GraphNode> sorted;
  sorted.reserve(nodes.size());
  for (std::size_t i = 0; i < old.size(); ++i) {
    now[static_cast<std::size_t>(old[i])] = kNumber(i);
    sorted.push_back(std::move(nodes[static_cast<std::size_t>(old[i])]));
  }
  nodes = std::move(sorted);
  for (GraphLink& link : links) {
    link.from = now[static_cast<std::size_t>(link.from)];
    link.to = now[static_cast<std::size_t>(link.to)];
    if (link.kind != GraphLinkKind::kPci && link.from > link.to) std::swap(link.from, link.to);
  }
  std::stable_sort(links.begin(), links.end(), [](const GraphLink& a, const GraphLink& b) {
    return order_of(a) < order_of(b);
  });
}

// Keeps one NVLink per pair if both ends reported it: the one with the higher rate.
void join_ends(std::vector<GraphLink>& links) {
  std::vector<GraphLink> joined;
  for (const GraphLink& link : links) {
    GraphLink* other = joined.empty() ? nullptr : &joined.back();
    if (link.kind != GraphLinkKind::kNvLink || other == nullptr ||
        order_of(*other) != order_of(link)) {
      joined.push_back(link);
    } else if (link.gbs > other->gbs) {
      *other = link;
    }
  }
  links = std::move(joined);
}

// Checks that every device has one parent, and that the path up ends at a NUMA node.
Status check_forest(const std::vector<GraphNode>& nodes, const std::vector<GraphLink>& links) {
  std::vector<int> above(nodes.size(), -1);
  for (const GraphLink& link : links) {
    if (link.kind != GraphLinkKind::kPci) continue;
    int& up = above[static_cast<std::size_t>(link.from)];
    if (up >= 0 && up != link.to) {
      return fail(StatusCode::kInvalidArgument, "PCI device {} is attached to two bridges",
                  nodes[static_cast<std::size_t>(link.from)].bus_id);
    }
    up = link.to;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!hangs(nodes[i])) continue;
    int at = kNumber(i);
    for (std::size_t steps = 0; at >= 0 && hangs(nodes[static_cast<std::size_t>(at)]); ++steps) {
      at = steps > nodes.size() ? -1 : above[static_cast<std::size_t>(at)];
    }
    if (at < 0 || nodes[static_cast<std::size_t>(at)].kind != NodeKind::kNuma) {
      return fail(StatusCode::kInvalidArgument, "{} {}{} is attached to no NUMA node",
                  name(nodes[i].kind), nodes[i].bus_id, nodes[i].name);
    }
  }
  return ok_status();
}

}  // namespace

std::string_view name(Source source) {
  constexpr std::string_view kNames[] = {"prior", "hwloc", "sysfs", "CUDA", "NVML", "file"};
  return kNames[kNumber(source)];
}

std::string_view name(NodeKind kind) {
  constexpr std::string_view kNames[] = {"NUMA node", "PCI bridge", "NVSwitch", "GPU", "NIC port"};
  return kNames[kNumber(kind)];
}

std::string_view name(GraphLinkKind kind) {
  constexpr std::string_view kNames[] = {"PCI", "NVLink", "C2C", "sockets"};
  return kNames[kNumber(kind)];
}

std::string normal_bus_id(std::string_view text) {
  std::string id;
  for (const char c : text) {
    const bool hex = std::isxdigit(static_cast<unsigned char>(c)) != 0;
    if (!hex && c != ':' && c != '.') return "";
    id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (std::count(id.begin(), id.end(), ':') == 1) id.insert(0, "0000:");
  const std::size_t domain = id.find(':');
  if (domain == std::string::npos || domain < 4) return "";
  if (domain > 4) {  // NVML writes eight digits
    if (id.find_first_not_of('0') < domain - 4) return "";
    id.erase(0, domain - 4);
  }
  const bool has_shape = id.size() == 12 && id[4] == ':' && id[7] == ':' && id[10] == '.' &&
                         std::count(id.begin(), id.end(), ':') == 2;
  return has_shape ? id : "";
}

int Graph::find(std::string_view bus_id) const {
  const std::string id = normal_bus_id(bus_id);
  if (id.empty()) return -1;
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const GraphNode& node) { return node.bus_id == id; });
  return found == nodes_.end() ? -1 : kNumber(found - nodes_.begin());
}

const GraphLink* Graph::up(int node) const {
  assert(node >= 0 && static_cast<std::size_t>(node) < nodes_.size());
  const int link = up_[static_cast<std::size_t>(node)];
  return link < 0 ? nullptr : &links_[static_cast<std::size_t>(link)];
}

int Graph::above(int node) const {
  const GraphLink* link = up(node);
  return link == nullptr ? -1 : link->to;
}

int Graph::numa_of(int node) const {
  while (node >= 0 && this->node(node).kind != NodeKind::kNuma) node = above(node);
  return node;
}

const GraphLink* Graph::between(int a, int b) const {
  assert(a >= 0 && b >= 0);
  assert(static_cast<std::size_t>(std::max(a, b)) < nodes_.size());
  const auto joins = [&](const GraphLink& link) {
    return (link.from == a && link.to == b) || (link.from == b && link.to == a);
  };
  // The fastest of several (C2C beside PCI).
  const GraphLink* best = nullptr;
  for (const GraphLink& link : links_) {
    if (joins(link) && (best == nullptr || link.gbs > best->gbs)) best = &link;
  }
  return best;
}

void Graph::index() {
  up_.assign(nodes_.size(), -1);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].kind == GraphLinkKind::kPci) {
      up_[static_cast<std::size_t>(links_[i].from)] = kNumber(i);
    }
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const int node = kNumber(i);
    switch (nodes_[i].kind) {
      case NodeKind::kNuma:
        numa_nodes_.push_back(node);
        break;
      case NodeKind::kNvSwitch:
        nvswitch_ = node;
        break;
      case NodeKind::kGpu:
        gpus_.push_back(node);
        break;
      case NodeKind::kNic:
        nics_.push_back(node);
        break;
      case NodeKind::kBridge:
        break;
    }
  }
  // Devices with numbers first, by number; the others stay in the order of bus ids.
  const auto by_number = [&](int a, int b) {
    const int left = node(a).number, right = node(b).number;
    return left >= 0 && (right < 0 || left < right);
  };
  std::stable_sort(gpus_.begin(), gpus_.end(), by_number);
  std::stable_sort(nics_.begin(), nics_.end(), by_number);
  digest_ = digest_of(*this);
}

GraphBuilder::GraphBuilder(const Graph& graph)
    : nodes_(graph.nodes()), links_(graph.links()), cpu_(graph.cpu()) {}

int GraphBuilder::add(GraphNode node) {
  nodes_.push_back(std::move(node));
  return kNumber(nodes_.size()) - 1;
}

void GraphBuilder::link(GraphLink link) {
  if (link.kind == GraphLinkKind::kNvLink || link.kind == GraphLinkKind::kC2c) {
    for (GraphLink& other : links_) {
      const bool same = other.from == link.from && other.to == link.to;
      if (!same || other.kind != link.kind) continue;
      other.gbs = std::min(other.gbs + link.gbs, GraphLink::kMaxGbs);
      other.count = std::min(other.count + link.count, GraphLink::kMaxCount);
      return;
    }
  }
  links_.push_back(link);
}

int GraphBuilder::find(std::string_view bus_id) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const GraphNode& node) {
    return !node.bus_id.empty() && node.bus_id == bus_id;
  });
  return found == nodes_.end() ? -1 : kNumber(found - nodes_.begin());
}

int GraphBuilder::nvswitch() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind == NodeKind::kNvSwitch) return kNumber(i);
  }
  return add({.kind = NodeKind::kNvSwitch, .name = "NVSwitch"});
}

int GraphBuilder::numa_of(int node) const {
  for (std::size_t steps = 0; steps <= nodes_.size(); ++steps) {
    if (node < 0 || nodes_[static_cast<std::size_t>(node)].kind == NodeKind::kNuma) return node;
    const auto up = std::find_if(links_.begin(), links_.end(), [&](const GraphLink& link) {
      return link.kind == GraphLinkKind::kPci && link.from == node;
    });
    node = up == links_.end() ? -1 : up->to;
  }
  return -1;
}

Result<Graph> GraphBuilder::build() && {
  if (nodes_.size() > kMaxNodes) {
    return fail(StatusCode::kInvalidArgument, "a host of {} devices; at most {} are supported",
                nodes_.size(), kMaxNodes);
  }
  RONDO_CHECK_OK(check_forest(nodes_, links_));
  put_in_order(nodes_, links_);
  join_ends(links_);
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    const GraphNode &one = nodes_[i - 1], &two = nodes_[i];
    const bool devices = two.kind == NodeKind::kGpu || two.kind == NodeKind::kNic;
    if (devices && !two.bus_id.empty() && one.kind == two.kind && one.bus_id == two.bus_id &&
        one.port == two.port) {
      return fail(StatusCode::kInvalidArgument, "{} {} occurs twice", name(two.kind), two.bus_id);
    }
  }
  Graph graph;
  graph.nodes_ = std::move(nodes_);
  graph.links_ = std::move(links_);
  graph.cpu_ = std::move(cpu_);
  std::vector<int> numa;
  for (std::size_t i = 0; i < graph.nodes_.size(); ++i) {
    if (graph.nodes_[i].kind == NodeKind::kNuma) numa.push_back(kNumber(i));
  }
  for (std::size_t i = 0; i < numa.size(); ++i) {
    for (std::size_t j = i + 1; j < numa.size(); ++j) {
      if (graph.between(numa[i], numa[j]) != nullptr) continue;
      graph.links_.push_back(
          {numa[i], numa[j], GraphLinkKind::kSockets, sockets_gbs(graph.cpu_), 1, Source::kPrior});
    }
  }
  std::stable_sort(
      graph.links_.begin(), graph.links_.end(),
      [](const GraphLink& a, const GraphLink& b) { return order_of(a) < order_of(b); });
  graph.index();
  return graph;
}

}  // namespace rondo::topology
