// NCCL's topology files: what NCCL_TOPO_FILE names, what clouds publish and what
// NCCL_TOPO_DUMP_FILE writes, as a Graph and back.
//
// Understood: <cpu> (a NUMA node), <pci> (bridges, GPUs, network adapters, by class), <gpu>,
// <nvlink>, <c2c>, <nic>, <net>. What a file leaves out is not known: rates of 0, GPUs without
// numbers. Everything else is named in `not_understood`, once. Guarantees: a graph
// that was parsed is the same after it has been written and parsed. Cost: about a microsecond a
// device; files up to 4 MiB.
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

// `file` stands in errors, which are kInvalidArgument and name the line. kSystemError: cannot be
// read.
Result<ParsedGraph> parse_nccl_xml(std::string_view text, std::string_view file);
Result<ParsedGraph> read_nccl_xml(const std::string& path);
// The text of such a file, or of hwloc's; a regular file of at most 4 MiB (base/text_file.h).
Result<std::string> read_graph_text(const std::string& path);

std::string write_nccl_xml(const Graph& graph);

}  // namespace rondo::topology
