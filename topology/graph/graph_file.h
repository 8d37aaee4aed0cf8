// Reads a file that describes a machine: NCCL's topology file (nccl_xml.h) or hwloc's XML
// (hwloc_graph.h). Its first element decides which.
#pragma once

#include <string>

#include "topology/graph/nccl_xml.h"

namespace rondo::topology {

// kSystemError: the file cannot be read. kInvalidArgument: neither format, or damaged.
Result<ParsedGraph> read_graph_file(const std::string& path);

}  // namespace rondo::topology
