// SPDX-License-Identifier: Apache-2.0
// The graph of this host: from /sys, CUDA and NVML, and from the file that NCCL_TOPO_FILE or
// RONDO_TOPO_XML names.
//
// Guarantees: a wrong file, a hidden /sys or a failed NVML still give a graph of the known facts.
// `wrong` describes the error of the file, `notes` the other errors and differences. Cost: some
// milliseconds; NVML is called only if there are GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"
#include "topology/graph/nccl_xml.h"

namespace rondo::topology {

// Reads a file that describes a machine: NCCL's topology file (nccl_xml.h) or hwloc's XML
// (hwloc_graph.h). Its first element decides which.
//
// kSystemError: the file cannot be read. kInvalidArgument: neither format, or damaged.
Result<ParsedGraph> read_graph_file(const std::string& path);

struct HostGraph {
  Graph graph;
  std::vector<std::string> notes;
  std::string wrong;  // error of the file, which is then ignored; empty: none
};

struct HostGraphOptions {
  std::string topology_file{};      // empty: /var/run/nvidia-topologyd/virtualTopology.xml, if any
  std::vector<std::string> gpus{};  // bus ids from CUDA, which /sys may hide
  const char* nvml = "libnvidia-ml.so.1";
  std::string root{};  // put before /sys, /proc and /var (tests)
};

Result<HostGraph> read_host_graph(const HostGraphOptions& options = {});

}  // namespace rondo::topology
