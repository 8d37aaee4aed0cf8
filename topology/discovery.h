// The two implementations of discover() (topology/host_topology.h). Each fills the structural part
// of a HostTopology: cores, NUMA nodes, caches, packages, memory, CPU names.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/host_topology.h"

namespace rondo::topology {

// By hwloc: this machine, an XML file or a synthetic description, by the options.
Status read_by_hwloc(const DiscoverOptions& options, HostTopology& host);

// By /sys and /proc below `root`; by sysconf if they cannot be read. Cannot fail.
void read_by_sysfs(const std::string& root, HostTopology& host);

// Call it after either: adds one node and one package if none is known, sums, consistent counts.
void complete(HostTopology& host);

}  // namespace rondo::topology
