// SPDX-License-Identifier: Apache-2.0
#include "topology/channels/describe_channels.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "base/double_tree.h"
#include "base/json.h"
#include "topology/graph/describe_graph.h"

namespace rondo::topology {
namespace {

std::string end_text(const Graph& graph, int node) {
  return node == Wires::kNetwork ? "network" : label(graph, node);
}

std::string slowest_text(const Graph& graph, const ChannelPlan& plan) {
  return end_text(graph, plan.slowest.from) + " to " + end_text(graph, plan.slowest.to);
}

}  // namespace

std::vector<int> devices_of(const Channel& channel) {
  assert(!channel.gpus.empty());
  std::vector<int> devices;
  if (channel.in >= 0) devices.push_back(channel.in);
  devices.insert(devices.end(), channel.gpus.begin(), channel.gpus.end());
  devices.push_back(channel.out >= 0 ? channel.out : channel.gpus.front());
  return devices;
}

std::string describe(const Graph& graph, const ChannelPlan& plan) {
  if (plan.channels.empty()) return "no channels: there is only one GPU\n";
  const bool over_network = plan.channels.front().in >= 0;
  std::string out = fmt::format(
      "{} {} of {:.4g} GB/s each: {:.4g} GB/s {}; the wires allow {:.4g}{}\nslowest: {}\n",
      plan.channels.size(), plan.channels.size() == 1 ? "channel" : "channels", plan.channel_gbs,
      plan.gbs(), over_network ? "into and out of each host" : "into and out of each GPU",
      plan.bound_gbs, plan.complete ? "" : " (not all sets of channels were tried)",
      slowest_text(graph, plan));
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    out += fmt::format("{:>3}:", c);
    std::string_view arrow = " ";
    for (const int device : devices_of(plan.channels[c])) {
      out += fmt::format("{}{}", arrow, label(graph, device));
      arrow = " > ";
    }
    out += "\n";
  }
  return out;
}

Json json_of(const Graph& graph, const ChannelPlan& plan) {
  Json json = {{"gbs", plan.gbs()},
               {"bound_gbs", plan.channels.empty() ? 0 : plan.bound_gbs},
               {"channel_gbs", plan.channel_gbs},
               {"complete", plan.complete}};
  json["channels"] = Json::array();
  if (!plan.channels.empty()) json["slowest"] = slowest_text(graph, plan);
  for (const Channel& channel : plan.channels) {
    Json entry;
    if (channel.in >= 0) entry["in"] = label(graph, channel.in);
    entry["gpus"] = Json::array();
    for (const int gpu : channel.gpus) entry["gpus"].push_back(label(graph, gpu));
    if (channel.out >= 0) entry["out"] = label(graph, channel.out);
    json["channels"].push_back(std::move(entry));
  }
  return json;
}

namespace {

constexpr std::size_t kChannelsInARow = 4;

// Hues differ by the golden ratio, so that neighbours differ clearly for any number of channels.
std::string colour_of(std::size_t channel) {
  double whole = 0;
  const double hue = std::modf(0.6 + 0.618034 * static_cast<double>(channel), &whole);
  return fmt::format("{:.3f} 0.85 {:.2f}", hue, channel % 2 == 0 ? 0.85 : 0.6);
}

// "3" for "GPU 3"; a port's name.
std::string short_label(const Graph& graph, int device) {
  const std::string name = label(graph, device);
  return graph.node(device).kind == NodeKind::kGpu ? name.substr(name.find(' ') + 1) : name;
}

// Draws all devices of a channel in a row.
std::string ring_lines(const Graph& graph, const Channel& channel, std::size_t c,
                       const std::string& colour) {
  const std::vector<int> devices = devices_of(channel);
  std::string out = "    { rank=same;\n";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out += fmt::format("      c{}r{} [label={}{}];\n", c, i,
                       dot_quoted(short_label(graph, devices[i])),
                       graph.node(devices[i]).kind == NodeKind::kGpu ? "" : ", shape=box");
  }
  for (std::size_t i = 1; i < devices.size(); ++i) {
    out += fmt::format(
        "      c{0}r{1} -- c{0}r{2} [dir=forward, color=\"{3}\", penwidth=2.5, arrowsize=0.6];\n",
        c, i - 1, i, colour);
  }
  return out + "    }\n";
}

// The graphviz name of a GPU in a tree of a channel.
std::string tree_node(std::size_t channel, int tree, int place) {
  return fmt::format("c{}t{}p{}", channel, tree, place);
}

std::string tree_lines(const Graph& graph, const Channel& channel, std::size_t c, int tree,
                       const std::string& colour) {
  const int size = static_cast<int>(channel.gpus.size());
  std::string out;
  for (int place = 0; place < size; ++place) {
    const int gpu = channel.gpus[static_cast<std::size_t>(place)];
    const int parent = double_tree(place, size, tree).parent;
    out += fmt::format("    {} [label={}];\n", tree_node(c, tree, place),
                       dot_quoted(short_label(graph, gpu)));
    // The second tree is below the middle of the ring, beside the first.
    out += parent == kNoRank
               ? fmt::format("    c{}r{} -- {} [style=invis];\n", c, 1 + tree * size / 2,
                             tree_node(c, tree, place))
               : fmt::format("    {} -- {} [color=\"{}\", penwidth=1.6];\n",
                             tree_node(c, tree, parent), tree_node(c, tree, place), colour);
  }
  return out;
}

std::string channel_lines(const Graph& graph, const Channel& channel, std::size_t c) {
  const std::string colour = colour_of(c);
  const bool over_network = channel.in >= 0;
  std::string out = fmt::format(
      "  subgraph cluster_channel{0} {{\n    label=\"channel {0}: its {1}\"; style=rounded; "
      "color=\"{2}\"; fontsize=11; margin=10;\n    node [shape=circle, width=0.3, margin=0.02, "
      "fontsize=9, fillcolor=\"#ffffff\", color=\"{2}\"];\n",
      c, over_network ? "way through this host" : "ring and its trees", colour);
  out += ring_lines(graph, channel, c, colour);
  for (const int tree : {0, 1}) {
    if (!over_network) out += tree_lines(graph, channel, c, tree, colour);
  }
  out += "  }\n";
  // Placed below the machine, or below the previous row of channels.
  const std::string above =
      c >= kChannelsInARow
          ? fmt::format("c{}{}", c - kChannelsInARow, over_network ? "r0" : "t0p0")
          : fmt::format("n{}", graph.nvswitch() >= 0 ? graph.nvswitch() : channel.gpus.front());
  return out + fmt::format("  {} -- c{}r0 [style=invis];\n", above, c);
}

}  // namespace

std::string describe_dot(const Graph& graph, const ChannelPlan& plan) {
  Overlay overlay;
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    overlay.lines += channel_lines(graph, plan.channels[c], c);
    overlay.legend.push_back(
        {colour_of(c), fmt::format("channel {}: {:.4g} GB/s", c, plan.channel_gbs)});
  }
  return describe_dot(graph, overlay);
}

}  // namespace rondo::topology
