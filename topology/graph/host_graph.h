// The graph of this host: what /sys and NVML say, and the file that NCCL_TOPO_FILE names.
//
// Guarantees: a file that is wrong, a hidden /sys and a dead NVML leave a graph of what is known;
// each of them is a sentence in `notes`. Cost: some milliseconds; NVML only where there are GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

struct HostGraph {
  Graph graph;
  std::vector<std::string> notes;
};

struct HostGraphOptions {
  std::string topology_file{};  // empty: /var/run/nvidia-topologyd/virtualTopology.xml, if there
  const char* nvml = "libnvidia-ml.so.1";
  std::string root{};  // stands before /sys, /proc and /var (tests)
};

Result<HostGraph> read_host_graph(const HostGraphOptions& options = {});

}  // namespace rondo::topology
