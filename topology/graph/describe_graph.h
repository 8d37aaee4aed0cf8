// SPDX-License-Identifier: Apache-2.0
// A Graph as text and as JSON: what `rondo topo` prints of GPUs and network ports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

// A tree below each NUMA node, with the rate of each link; then the links that are not PCI.
std::string describe(const Graph& graph);

// The sources of each kind of node and link, as a line: "8 GPUs (file), 2 NIC ports (sysfs), ...".
std::string sources_of(const Graph& graph);

// The matrix of path classes between all GPUs and NIC ports, in the layout of `nvidia-smi topo -m`
// (NV18: 18 NVLinks), then a legend.
std::string describe_matrix(const Graph& graph);

// {"nodes": [...], "links": [...], "digest": "16 hex digits", ...}; "from", "to": indices of nodes.
Json json_of(const Graph& graph);

// "GPU 3", "mlx5_0 port 2", "NUMA node 0": short, and unique but for bridges.
std::string label(const Graph& graph, int node);

// For a GPU in MIG mode: "MIG, 2 instances".
std::string mig_text(const GraphNode& gpu);

// Additions to the picture of the machine.
struct Overlay {
  struct Row {
    std::string colour;
    std::string text;  // not escaped: must not contain names from files
  };
  std::string lines{};  // in graphviz's language; node 3 of the graph is "n3"
  std::vector<Row> legend{};
};

// A Graph as a picture in graphviz's language: `rondo topo --svg` renders it, `--dot` prints it.
//
// A frame is a NUMA node with the devices below it. The width of a line shows the rate of its link;
// it is dashed if the rate is assumed or unknown. A legend explains the colours. NVLinks between
// GPUs have their own frame, because all GPUs of the tree are in one row. Names come from files and
// may hold any bytes; they are escaped, so that none can end a label. Guarantees: one line of text
// per node and link. Cost: proportional to the number of links.
std::string describe_dot(const Graph& graph, const Overlay& overlay = {});

// A text as a quoted graphviz label.
std::string dot_quoted(std::string_view text);

}  // namespace rondo::topology
