// A file that describes a machine: NCCL's topology file (nccl_xml.h) or hwloc's XML
// (hwloc_graph.h); its first element says which.
#pragma once

#include <string>

#include "topology/graph/nccl_xml.h"

namespace rondo::topology {

// kSystemError: cannot be read; kInvalidArgument: neither, or damaged.
Result<ParsedGraph> read_graph_file(const std::string& path);

}  // namespace rondo::topology
