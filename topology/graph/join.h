// A file and what was found of one host, as one graph. A file tells how devices are wired where a
// virtual machine hides it; it knows no numbers, and it may be of more devices than there are.
//
// Devices are the same where their bus ids are. The file's tree and rates count (but hwloc's rates
// are of the moment: those of /sys count before them); what it leaves out
// (numbers, capabilities, ports, rates, NVLinks where it has none) comes from what was found.
// Devices that only the file has are left out; those that only were found hang from their NUMA
// node. Each such difference is a sentence. Cost: the devices squared.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"

namespace rondo::topology {

struct JoinedGraph {
  Graph graph;
  std::vector<std::string> differences;
};

Result<JoinedGraph> join(const Graph& file, const Graph& found);

}  // namespace rondo::topology
