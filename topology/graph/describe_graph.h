// A Graph as text and as JSON: what `rondo topo` prints of GPUs and network ports.
#pragma once

#include <string>

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

}  // namespace rondo::topology
