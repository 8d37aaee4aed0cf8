#include "topology/graph/draw_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/printable.h"
#include "topology/graph/describe_graph.h"

namespace rondo::topology {
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
