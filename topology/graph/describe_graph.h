// A Graph for people and for programs: what `rondo topo` prints of GPUs and network ports.
#pragma once

#include <string>

#include "base/json.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

// As a tree below NUMA nodes, with the rate of each link; then NVLinks. Empty: no devices.
std::string describe(const Graph& graph);

// Whence each kind of fact is, in one line: "8 GPUs (file), 1 network port (sysfs), ...".
std::string sources_of(const Graph& graph);

// The class of the path between every two GPUs and NIC ports, as `nvidia-smi topo -m` lays it out
// (NV18: NVLinks, by their number), then what the classes mean.
std::string describe_matrix(const Graph& graph);

// {"nodes": [...], "links": [...], "digest": "16 hex digits"}; indices of nodes in "from" and "to".
Json json_of(const Graph& graph);

// "GPU 3", "mlx5_0 port 1", "NUMA node 0": short, and no two of a graph are equal but bridges.
std::string label(const Graph& graph, int node);

// Of a GPU in MIG mode: "MIG, 2 instances".
std::string mig_text(const GraphNode& gpu);

}  // namespace rondo::topology
