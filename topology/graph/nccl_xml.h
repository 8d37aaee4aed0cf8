// SPDX-License-Identifier: Apache-2.0
// Reads and writes NCCL's topology files as a Graph: the files that NCCL_TOPO_FILE names, that
// clouds publish and that NCCL_TOPO_DUMP_FILE writes.
//
// It reads <cpu> (a NUMA node), <pci> (bridges, GPUs, NICs, by class), <gpu>, <nvlink>, <c2c>,
// <nic> and <net>. Missing facts are unknown: rates of 0, GPUs without numbers. Everything else is
// listed in `not_understood`, once. Guarantees: a parsed graph is equal after it has been written
// and parsed again. Cost: about a microsecond per device; files up to 4 MiB.
//
//   RONDO_TRY(ParsedGraph parsed, read_nccl_xml("/etc/topo.xml"));
//   write_file(path, write_nccl_xml(parsed.graph));
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

struct ParsedGraph {
  Graph graph;
  std::vector<std::string> not_understood;  // "attribute gcn of <gpu>, line 7"
};

// `file`: its name for error texts. kInvalidArgument: a wrong file; the text names the line.
// kSystemError: the file cannot be read.
Result<ParsedGraph> parse_nccl_xml(std::string_view text, std::string_view file);
Result<ParsedGraph> read_nccl_xml(const std::string& path);

std::string write_nccl_xml(const Graph& graph);

}  // namespace rondo::topology
