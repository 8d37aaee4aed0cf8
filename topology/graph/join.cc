// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/join.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo::topology {
namespace {

bool is_device(const GraphNode& node) {
  return node.kind == NodeKind::kGpu || node.kind == NodeKind::kNic;
}

class Joiner {
 public:
  Joiner(const Graph& file, const Graph& found)
      : file_(file),
        found_(found),
        of_file_(file.nodes().size(), -1),
        of_found_(found.nodes().size(), -1) {}

  Result<JoinedGraph> join() {
    builder_.cpu(file_.cpu().vendor.empty() ? found_.cpu() : file_.cpu());
    for (int i = 0; i < static_cast<int>(file_.nodes().size()); ++i) keep(i);
    for (const GraphLink& link : file_.links()) keep(link);
    for (const int numa : found_.numa_nodes()) add_numa_node(numa);
    for (int i = 0; i < static_cast<int>(found_.nodes().size()); ++i) add(i);
    take_links(GraphLinkKind::kNvLink);
    take_links(GraphLinkKind::kC2c);
    RONDO_TRY(Graph graph, std::move(builder_).build());
    return JoinedGraph{std::move(graph), std::move(differences_)};
  }

 private:
  // The found node of the same device, unless another node of the file has it; -1: none.
  int same_in_found(const GraphNode& node) const {
    int adapter = -1;
    for (int i = 0; i < static_cast<int>(found_.nodes().size()); ++i) {
      const GraphNode& other = found_.node(i);
      if (other.kind != node.kind || taken(i)) continue;
      if (node.bus_id.empty() ? other.name != node.name : other.bus_id != node.bus_id) continue;
      if (other.port == node.port) return i;
      if (adapter < 0 && node.port == 0) adapter = i;  // the file has no port number
    }
    return adapter;
  }
  // In MIG mode: instances have no NVLinks, even if the file lists some for the GPU.
  bool is_cut(int mine) { return builder_.node(mine).instances >= 0; }
  bool taken(int found) const { return of_found_[static_cast<std::size_t>(found)] >= 0; }

  void keep(int index) {
    GraphNode node = file_.node(index);
    if (is_device(node)) {
      const int found = same_in_found(node);
      if (found < 0) {
        differences_.push_back(
            fmt::format("{} {}{}{} is not on this host", name(node.kind), node.bus_id,
                        node.bus_id.empty() || node.name.empty() ? "" : " ", node.name));
        return;
      }
      complete(node, found_.node(found));
      of_found_[static_cast<std::size_t>(found)] = builder_.add(node);
      of_file_[static_cast<std::size_t>(index)] = of_found_[static_cast<std::size_t>(found)];
      return;
    }
    of_file_[static_cast<std::size_t>(index)] = builder_.add(std::move(node));
  }

  // Numbers and MIG are the driver's. Other facts are the file's, if it has them.
  static void complete(GraphNode& node, const GraphNode& found) {
    if (found.number >= 0) node.number = found.number;
    if (node.compute == 0) node.compute = found.compute;
    node.instances = found.instances;
    if (node.name.empty()) node.name = found.name;
    if (node.port == 0) node.port = found.port;
    if (node.port_gbs <= 0) node.port_gbs = found.port_gbs;
  }

  void keep(GraphLink link) {
    const int from = of_file_[static_cast<std::size_t>(link.from)];
    const int to = of_file_[static_cast<std::size_t>(link.to)];
    if (from < 0 || to < 0 || link.kind == GraphLinkKind::kSockets) return;
    if (link.kind == GraphLinkKind::kNvLink && (is_cut(from) || is_cut(to))) return;
    if (link.kind == GraphLinkKind::kPci && (link.gbs <= 0 || link.source == Source::kHwloc)) {
      const int same = found_.find(file_.node(link.from).bus_id);
      const GraphLink* up = same < 0 ? nullptr : found_.up(same);
      if (up != nullptr && up->gbs > 0)
        link.gbs = up->gbs, link.count = up->count, link.source = up->source;
    }
    link.from = from;
    link.to = to;
    builder_.link(link);
  }

  void add_numa_node(int found) {
    const GraphNode& node = found_.node(found);
    for (const int numa : file_.numa_nodes()) {
      if (file_.node(numa).number != node.number) continue;
      const int mine = of_file_[static_cast<std::size_t>(numa)];
      if (builder_.node(mine).cpus.empty()) builder_.node(mine).cpus = node.cpus;
      of_found_[static_cast<std::size_t>(found)] = mine;
      return;
    }
    of_found_[static_cast<std::size_t>(found)] = builder_.add(node);
  }

  // Adds a device that the file lacks: beside the NIC's other ports, else below its NUMA node.
  void add(int found) {
    const GraphNode& node = found_.node(found);
    if (!is_device(node) || taken(found)) return;
    const int sibling = node.bus_id.empty() ? -1 : file_.find(node.bus_id);
    const int above = sibling < 0 ? -1 : of_file_[static_cast<std::size_t>(file_.above(sibling))];
    if (above < 0) {
      differences_.push_back(
          fmt::format("{} {} {} is not in the file", name(node.kind), node.bus_id, node.name));
    }
    const int added = builder_.add(node);
    of_found_[static_cast<std::size_t>(found)] = added;
    GraphLink link = *found_.up(found);
    link.from = added;
    link.to = above >= 0 ? above : of_found_[static_cast<std::size_t>(found_.numa_of(found))];
    builder_.link(link);
  }

  // Takes the found links of a kind if the file has none of it.
  void take_links(GraphLinkKind kind) {
    const auto is_kind = [&](const GraphLink& link) { return link.kind == kind; };
    if (std::any_of(file_.links().begin(), file_.links().end(), is_kind)) return;
    const int nvswitch = found_.nvswitch();
    for (GraphLink link : found_.links()) {
      if (!is_kind(link)) continue;
      if (nvswitch >= 0 && !taken(nvswitch)) {
        of_found_[static_cast<std::size_t>(nvswitch)] = builder_.nvswitch();
      }
      link.from = of_found_[static_cast<std::size_t>(link.from)];
      link.to = of_found_[static_cast<std::size_t>(link.to)];
      builder_.link(link);
    }
  }

  const Graph& file_;
  const Graph& found_;
  std::vector<int> of_file_, of_found_;  // nodes of the builder, by node; -1: none
  GraphBuilder builder_;
  std::vector<std::string> differences_;
};

}  // namespace

Result<JoinedGraph> join(const Graph& file, const Graph& found) {
  return Joiner(file, found).join();
}

}  // namespace rondo::topology
