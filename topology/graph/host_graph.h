// The graph of this host: what /sys, CUDA and NVML say, and the file that NCCL_TOPO_FILE or
// RONDO_TOPO_XML names (graph_file.h).
//
// Guarantees: a file that is wrong, a hidden /sys and a dead NVML leave a graph of what is known;
// the file is a sentence in `wrong`, the others and what differs in `notes`. Cost: some
// milliseconds; NVML only where there are GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

struct HostGraph {
  Graph graph;
  std::vector<std::string> notes;
  std::string wrong;  // with the file, which therefore does not count; empty: nothing
};

struct HostGraphOptions {
  std::string topology_file{};  // empty: /var/run/nvidia-topologyd/virtualTopology.xml, if there
  std::vector<std::string> gpus{};  // bus ids that CUDA tells, which /sys may hide
  const char* nvml = "libnvidia-ml.so.1";
  std::string root{};  // stands before /sys, /proc and /var (tests)
};

Result<HostGraph> read_host_graph(const HostGraphOptions& options = {});

}  // namespace rondo::topology
