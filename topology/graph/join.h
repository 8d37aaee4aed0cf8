// SPDX-License-Identifier: Apache-2.0
// Joins the graph of a file with the graph that was found on the host. A file shows how devices are
// connected where a virtual machine hides it. Device numbers are the driver's, not the file's. The
// file may list more devices than the host has.
//
// Devices with equal bus ids are the same device. The file's tree and rates are used, but rates
// from /sys replace hwloc's (hwloc_graph.h). Facts that the file lacks (numbers, capabilities,
// ports, rates, NVLinks if it has none) are taken from the host. Devices that are only in the file
// are left out. Devices that are only on the host are attached to their NUMA node. Each such
// difference is reported as a sentence. Cost: quadratic in the number of devices.
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
