#include "topology/graph/describe_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "topology/graph/paths.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

int position_in(std::span<const int> list, int node) {
  return static_cast<int>(std::find(list.begin(), list.end(), node) - list.begin());
}

std::string rate_text(double gbs) {
  return gbs > 0 ? fmt::format("{:.4g} GB/s", gbs) : "rate unknown";
}

// "PCI 16 GT/s x16, 31.51 GB/s"
std::string link_text(const GraphLink& link) {
  std::string text(name(link.kind));
  if (link.kind == GraphLinkKind::kNvLink) text += fmt::format(" x{}", link.count);
  const double speed = link.kind == GraphLinkKind::kPci ? pci_speed_of(link.gbs, link.count) : 0;
  if (speed > 0) text += fmt::format(" {:g} GT/s x{}", speed, link.count);
  text += ", " + rate_text(link.gbs);
  return link.source == Source::kPrior ? text + " (assumed)" : text;
}

std::string node_text(const Graph& graph, int index) {
  const GraphNode& node = graph.node(index);
  std::string text = label(graph, index);
  if (!node.bus_id.empty() && node.kind != NodeKind::kBridge) text += ", " + node.bus_id;
  if (node.compute > 0) text += fmt::format(", sm_{}", node.compute);
  if (node.instances >= 0) text += ", " + mig_text(node);
  if (node.kind == NodeKind::kNic) text += ", network " + rate_text(node.port_gbs);
  if (!node.cpus.empty()) text += ", cpus " + to_text(node.cpus);
  return text;
}

void draw_below(const Graph& graph, int above, const std::string& indent, std::string& out) {
  std::vector<int> below;
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
    if (graph.above(i) == above) below.push_back(i);
  }
  for (const int node : below) {
    const bool last = node == below.back();
    out += fmt::format("{}{}{} [{}]\n", indent, last ? "└─ " : "├─ ", node_text(graph, node),
                       link_text(*graph.up(node)));
    draw_below(graph, node, indent + (last ? "   " : "│  "), out);
  }
}

std::string cell(const Graph& graph, int a, int b) {
  if (a == b) return "X";
  const Path path = path_between(graph, a, b);
  if (path.kind != PathClass::kNvl) return std::string(name(path.kind));
  // Over an NVSwitch: the number of links from a GPU to it.
  return fmt::format("NV{}", path.slowest == nullptr ? 0 : path.slowest->count);
}

}  // namespace

std::string label(const Graph& graph, int index) {
  const GraphNode& node = graph.node(index);
  switch (node.kind) {
    case NodeKind::kNuma:
      return fmt::format("NUMA node {}", node.number);
    case NodeKind::kBridge:
      return "bridge " + node.bus_id;
    case NodeKind::kNvSwitch:
      return "NVSwitch";
    case NodeKind::kGpu:
      return fmt::format("GPU {}",
                         node.number >= 0 ? node.number : position_in(graph.gpus(), index));
    case NodeKind::kNic:
      break;
  }
  std::string text =
      node.name.empty()
          ? fmt::format("NIC {}", node.number >= 0 ? node.number : position_in(graph.nics(), index))
          : node.name;
  if (node.port > 1) text += fmt::format(" port {}", node.port);
  return text;
}

std::string mig_text(const GraphNode& gpu) {
  return fmt::format("MIG, {} instance{}", gpu.instances, gpu.instances == 1 ? "" : "s");
}

std::string describe(const Graph& graph) {
  std::string out;
  for (const int numa : graph.numa_nodes()) {
    out += node_text(graph, numa) + "\n";
    draw_below(graph, numa, "", out);
  }
  for (const GraphLink& link : graph.links()) {
    if (link.kind == GraphLinkKind::kPci) continue;
    out += fmt::format("{} - {} [{}]\n", label(graph, link.from), label(graph, link.to),
                       link_text(link));
  }
  return out;
}

std::string sources_of(const Graph& graph) {
  std::map<std::string, std::pair<int, std::set<Source>>> kinds;
  for (const GraphNode& node : graph.nodes()) {
    auto& [count, sources] = kinds[std::string(name(node.kind)) + "s"];
    ++count;
    sources.insert(node.source);
  }
  for (const GraphLink& link : graph.links()) {
    auto& [count, sources] = kinds[std::string(name(link.kind)) + " links"];
    ++count;
    sources.insert(link.source);
  }
  std::string text;
  for (const auto& [kind, known] : kinds) {
    std::string by;
    for (const Source source : known.second)
      by += fmt::format("{}{}", by.empty() ? "" : ", ", name(source));
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", known.first, kind, by);
  }
  return text;
}

std::string describe_matrix(const Graph& graph) {
  std::vector<int> devices(graph.gpus().begin(), graph.gpus().end());
  devices.insert(devices.end(), graph.nics().begin(), graph.nics().end());
  std::vector<std::string> labels;
  std::size_t width = 4;
  for (const int device : devices) {
    labels.push_back(label(graph, device));
    width = std::max(width, labels.back().size());
  }
  std::string out = fmt::format("{:<{}}", "", width);
  for (const std::string& text : labels) out += fmt::format("  {:>{}}", text, width);
  out += fmt::format("  {:>{}}  {}\n", "NUMA", width, "cores");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out += fmt::format("{:<{}}", labels[i], width);
    for (const int other : devices) {
      out += fmt::format("  {:>{}}", cell(graph, devices[i], other), width);
    }
    const GraphNode& numa = graph.node(graph.numa_of(devices[i]));
    out += fmt::format("  {:>{}}  {}\n", numa.number, width, to_text(numa.cpus));
  }
  return out +
         "\nX the device itself, NV# a set of # NVLinks, NVB NVLinks over another GPU, PIX one PCI "
         "switch,\nPXB several PCI switches, P2C C2C and PCI, PHB the host bridge of a NUMA node, "
         "SYS between NUMA nodes\n";
}

Json json_of(const Graph& graph) {
  Json json;
  json["digest"] = fmt::format("{:016x}", graph.digest());
  json["cpu"] = {{"arch", graph.cpu().arch},
                 {"vendor", graph.cpu().vendor},
                 {"family", graph.cpu().family},
                 {"model", graph.cpu().model}};
  json["nodes"] = Json::array();
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
    const GraphNode& node = graph.node(i);
    Json entry = {{"kind", name(node.kind)}, {"label", label(graph, i)}};
    if (!node.bus_id.empty()) entry["bus_id"] = node.bus_id;
    if (node.number >= 0) entry["number"] = node.number;
    if (node.compute > 0) entry["compute"] = node.compute;
    if (node.instances >= 0) entry["instances"] = node.instances;
    if (node.kind == NodeKind::kNic) entry["port"] = node.port, entry["gbs"] = node.port_gbs;
    if (!node.cpus.empty()) entry["cpus"] = to_text(node.cpus);
    entry["source"] = name(node.source);
    json["nodes"].push_back(std::move(entry));
  }
  json["links"] = Json::array();
  for (const GraphLink& link : graph.links()) {
    json["links"].push_back({{"from", link.from},
                             {"to", link.to},
                             {"kind", name(link.kind)},
                             {"gbs", link.gbs},
                             {"count", link.count},
                             {"source", name(link.source)}});
  }
  return json;
}

}  // namespace rondo::topology
