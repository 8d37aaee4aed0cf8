// SPDX-License-Identifier: Apache-2.0
#include "topology/graph/describe_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"
#include "base/printable.h"
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
    const char* const branch = last ? "└─ " : "├─ ";
    out += fmt::format("{}{}{} [{}]\n", indent, branch, node_text(graph, node),
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

std::string mig_text(const GraphNode& gpu) { return "MIG, " + counted(gpu.instances, "instance"); }

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

namespace {

struct NodeLook {
  const char* shape;
  const char* fill;
};
constexpr std::array<NodeLook, 5> kNodeLooks = {{{"box3d", "#dedede"},
                                                 {"ellipse", "#ffffff"},
                                                 {"hexagon", "#d9cbf2"},
                                                 {"box", "#c9e7bd"},
                                                 {"box", "#bfdcf4"}}};
struct LinkLook {
  const char* colour;
  const char* meaning;
};
constexpr std::array<LinkLook, 4> kLinkLooks = {{{"#7a7a7a", "PCI, lanes"},
                                                 {"#3f8f24", "NVLink, number of links"},
                                                 {"#c27c0e", "NVLink-C2C"},
                                                 {"#b03a2e", "between sockets"}}};

const NodeLook& look_of(const GraphNode& node) {
  return kNodeLooks[static_cast<std::size_t>(node.kind)];
}
const LinkLook& look_of(const GraphLink& link) {
  return kLinkLooks[static_cast<std::size_t>(link.kind)];
}

// Several lines as one graphviz label, "a\nb". Each line is escaped separately.
std::string label_of(const std::vector<std::string>& lines) {
  std::string out = "\"";
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    const std::string part = dot_quoted(line);
    if (out.size() > 1) out += "\\n";
    out.append(part, 1, part.size() - 2);
  }
  return out + "\"";
}

std::string node_label(const Graph& graph, int index) {
  const GraphNode& node = graph.node(index);
  std::vector<std::string> lines = {label(graph, index)};
  if (node.kind == NodeKind::kBridge) lines = {"PCI switch"};
  if (!node.cpus.empty()) lines.push_back("cores " + to_text(node.cpus));
  if (node.compute > 0) lines.push_back(fmt::format("sm_{}", node.compute));
  if (node.instances >= 0) lines.push_back(mig_text(node));
  if (node.kind == NodeKind::kNic && node.port_gbs > 0)
    lines.push_back(fmt::format("network {:.4g} GB/s", node.port_gbs));
  lines.push_back(node.bus_id);
  return label_of(lines);
}

std::string node_line(const Graph& graph, int index) {
  const GraphNode& node = graph.node(index);
  return fmt::format("n{} [label={}, shape={}, fillcolor=\"{}\"{}];\n", index,
                     node_label(graph, index), look_of(node).shape, look_of(node).fill,
                     node.kind == NodeKind::kNvSwitch ? ", width=4" : "");
}

// Line width: from 1 for slow links to about 7 for the fastest of today's links.
double width_of(const GraphLink& link) {
  return link.gbs > 0 ? std::clamp(1 + 1.1 * std::log2(1 + link.gbs / 16), 1.0, 8.0) : 1;
}

std::string rate_label(const GraphLink& link) {
  std::string text = link.gbs > 0 ? fmt::format("{:.4g}", link.gbs) : "?";
  const bool counts = link.kind == GraphLinkKind::kPci || link.kind == GraphLinkKind::kNvLink;
  return counts && link.count > 0 ? fmt::format("{} (x{})", text, link.count) : text;
}

bool joins_gpus(const Graph& graph, const GraphLink& link) {
  return link.kind == GraphLinkKind::kNvLink && graph.node(link.from).kind == NodeKind::kGpu &&
         graph.node(link.to).kind == NodeKind::kGpu;
}

std::string link_line(const Graph& graph, const GraphLink& link) {
  // Children are drawn below their parent, NVSwitches below all GPUs.
  const bool hangs = link.kind == GraphLinkKind::kPci;
  const auto is = [&](int node, NodeKind kind) { return graph.node(node).kind == kind; };
  int top = hangs ? link.to : link.from, bottom = hangs ? link.from : link.to;
  if (is(top, NodeKind::kNvSwitch)) std::swap(top, bottom);
  const bool mesh = joins_gpus(graph, link);
  const bool orders =
      hangs || mesh || link.kind == GraphLinkKind::kC2c || is(bottom, NodeKind::kNvSwitch);
  const bool sure = link.gbs > 0 && link.source != Source::kPrior;
  return fmt::format(
      "{0}{1} -- {0}{2} [label=\"{3}\", color=\"{4}\", fontcolor=\"{4}\", "
      "penwidth={5:.1f}{6}{7}];\n",
      mesh ? "g" : "n", top, bottom, rate_label(link), look_of(link).colour, width_of(link),
      sure ? "" : ", style=dashed", orders ? "" : ", constraint=false");
}

// NVLinks between GPUs are many, so they are drawn beside the tree, with copies of the GPUs.
std::string mesh_of(const Graph& graph) {
  std::string lines;
  std::set<int> gpus;
  for (const GraphLink& link : graph.links()) {
    if (!joins_gpus(graph, link)) continue;
    gpus.insert({link.from, link.to});
    lines += "    " + link_line(graph, link);
  }
  if (gpus.empty()) return "";
  std::string out =
      "  subgraph cluster_nvlinks {\n    label=\"NVLinks between GPUs\"; style=rounded; "
      "color=\"#3f8f24\"; fontsize=11; margin=10;\n";
  for (const int gpu : gpus) {
    out += fmt::format("    g{} [label={}, shape=box, fillcolor=\"{}\"];\n", gpu,
                       label_of({label(graph, gpu)}), look_of(graph.node(gpu)).fill);
  }
  return out + lines + "  }\n";
}

std::string legend_row(std::string_view colour, std::string_view text) {
  return fmt::format(
      "<tr><td bgcolor=\"{}\" width=\"26\" height=\"6\"></td><td align=\"left\">{}</td></tr>",
      colour, text);
}

std::string legend_of(const Graph& graph, const Overlay& overlay) {
  std::set<GraphLinkKind> kinds;
  for (const GraphLink& link : graph.links()) kinds.insert(link.kind);
  std::string rows;
  for (const GraphLinkKind kind : kinds) {
    const LinkLook& look = kLinkLooks[static_cast<std::size_t>(kind)];
    rows += legend_row(look.colour, look.meaning);
  }
  for (const Overlay::Row& row : overlay.legend) rows += legend_row(row.colour, row.text);
  return fmt::format(
      "  legend [shape=plaintext, style=\"\", fontsize=10, label=<<table border=\"1\" "
      "color=\"#bbbbbb\" cellborder=\"0\"><tr><td colspan=\"2\" align=\"left\">GB/s each way (x "
      "lanes or links); dashed: assumed, or not known</td></tr>{}</table>>];\n",
      rows);
}

}  // namespace

std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string describe_dot(const Graph& graph, const Overlay& overlay) {
  std::string out =
      "graph host {\n  rankdir=TB; nodesep=0.3; ranksep=0.7; splines=true; fontname=Helvetica;\n"
      "  node [fontname=Helvetica, fontsize=11, style=filled, color=\"#555555\"];\n"
      "  edge [fontname=Helvetica, fontsize=9];\n";
  for (const int numa : graph.numa_nodes()) {
    out += fmt::format(
        "  subgraph cluster_numa{} {{\n    style=\"rounded,filled\"; color=\"#aaaaaa\"; "
        "fillcolor=\"#f6f6f6\"; margin=14;\n",
        numa);
    for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
      if (graph.numa_of(i) == numa) out += "    " + node_line(graph, i);
    }
    out += "  }\n";
  }
  if (graph.nvswitch() >= 0) out += "  " + node_line(graph, graph.nvswitch());
  for (const GraphLink& link : graph.links()) {
    if (!joins_gpus(graph, link)) out += "  " + link_line(graph, link);
  }
  out += mesh_of(graph);
  return out + legend_of(graph, overlay) + overlay.lines + "}\n";
}

}  // namespace rondo::topology
