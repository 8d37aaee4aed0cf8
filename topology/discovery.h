// The two ways to read a machine, behind discover() (topology/host_topology.h): each fills the
// structural part (cores, NUMA nodes, caches, packages, memory, CPU names) of a HostTopology.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/host_topology.h"

namespace rondo::topology {

// By hwloc: this machine, an XML file or a synthetic description, as the options say.
Status read_by_hwloc(const DiscoverOptions& options, HostTopology& host);

// By /sys and /proc below `root`, down to sysconf where nothing can be read. Cannot fail.
void read_by_sysfs(const std::string& root, HostTopology& host);

// After either: one node and one package where none is known, sums, consistent counts.
void complete(HostTopology& host);

}  // namespace rondo::topology
