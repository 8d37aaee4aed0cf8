// SPDX-License-Identifier: Apache-2.0
// Random machines for the channel search, and a check of the plans. The check uses only the graph's
// paths, so it is independent of the search's model of wires.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "topology/channels/channels.h"
#include "topology/graph/paths.h"
#include "topology/graph/rates.h"

namespace rondo::topology::random {

// One or two NUMA nodes with switches, `gpus` GPUs with random NVLinks or an NVSwitch, and up to
// three ports.
inline Graph random_machine(unsigned seed, int gpus) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto pci = [&] { return pci_gbs(8 << below(3), 16); };
  GraphBuilder builder;
  builder.cpu({.arch = "x86_64", .vendor = below(2) == 0 ? "GenuineIntel" : "AuthenticAMD"});
  std::vector<int> bridges;  // and NUMA nodes: parents of devices
  const int numa_nodes = 1 + below(2);
  for (int i = 0; i < numa_nodes; ++i) {
    bridges.push_back(builder.add({.kind = NodeKind::kNuma, .number = i}));
  }
  int bus = 1;
  const auto next_bus = [&] { return fmt::format("0000:{:02x}:00.0", bus++); };
  for (int i = below(4); i > 0; --i) {
    const int above = bridges[static_cast<std::size_t>(below(static_cast<int>(bridges.size())))];
    const int bridge = builder.add({.kind = NodeKind::kBridge, .bus_id = next_bus()});
    builder.link({bridge, above, GraphLinkKind::kPci, pci(), 16});
    bridges.push_back(bridge);
  }
  const auto hang = [&](int device) {
    const int above = bridges[static_cast<std::size_t>(below(static_cast<int>(bridges.size())))];
    builder.link({device, above, GraphLinkKind::kPci, pci(), 16});
    return device;
  };
  std::vector<int> cards;
  for (int i = 0; i < gpus; ++i) {
    cards.push_back(hang(
        builder.add({.kind = NodeKind::kGpu, .bus_id = next_bus(), .number = i, .compute = 70})));
  }
  const int wiring = below(3);  // none, by pairs, by switch
  for (std::size_t a = 0; wiring == 1 && a < cards.size(); ++a) {
    for (std::size_t b = a + 1; b < cards.size(); ++b) {
      const int links = below(3);
      if (links == 0) continue;
      builder.link({cards[a], cards[b], GraphLinkKind::kNvLink, 25.0 * links, links});
    }
  }
  for (std::size_t a = 0; wiring == 2 && a < cards.size(); ++a) {
    builder.link({cards[a], builder.nvswitch(), GraphLinkKind::kNvLink, 150, 6});
  }
  for (int i = below(4); i > 0; --i) {
    hang(builder.add({.kind = NodeKind::kNic,
                      .bus_id = next_bus(),
                      .name = "mlx5_" + std::to_string(i),
                      .number = i,
                      .port_gbs = 12.5 * (1 + below(2))}));
  }
  return *std::move(builder).build();
}

// Number of times that the channels pass each link, keyed by the nodes at its ends; -1: beyond a
// port.
using Loads = std::map<std::pair<int, int>, int>;

inline void pass(Loads& loads, const Graph& graph, int from, int to) {
  Path path = path_between(graph, from, to);
  if (path.kind == PathClass::kNvb) path = path_over_pci(graph, from, to);
  for (std::size_t i = 1; i < path.nodes.size(); ++i) ++loads[{path.nodes[i - 1], path.nodes[i]}];
}

inline void pass(Loads& loads, const Graph& graph, const Channel& channel) {
  for (std::size_t i = 1; i < channel.gpus.size(); ++i) {
    pass(loads, graph, channel.gpus[i - 1], channel.gpus[i]);
  }
  if (channel.in < 0) return pass(loads, graph, channel.gpus.back(), channel.gpus.front());
  ++loads[{-1, channel.in}];
  pass(loads, graph, channel.in, channel.gpus.front());
  pass(loads, graph, channel.gpus.back(), channel.out);
  ++loads[{channel.out, -1}];
}

inline double gbs_of(const Graph& graph, std::pair<int, int> ends) {
  if (ends.first < 0) return graph.node(ends.second).port_gbs;
  if (ends.second < 0) return graph.node(ends.first).port_gbs;
  return graph.between(ends.first, ends.second)->gbs;
}

// The maximum bandwidth per channel before the most loaded link is full.
inline double fits(const Graph& graph, const Loads& loads) {
  double maximum = 1e300;
  for (const auto& [ends, uses] : loads) maximum = std::min(maximum, gbs_of(graph, ends) / uses);
  return maximum;
}

}  // namespace rondo::topology::random
