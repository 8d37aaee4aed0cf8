// A HostTopology for people and for programs: what `rondo topo` prints.
#pragma once

#include <span>
#include <string>

#include "topology/graph/graph.h"
#include "topology/host_topology.h"
#include "topology/net_interfaces.h"

namespace rondo::topology {

// Some lines of facts, then the machine as a tree: packages, NUMA nodes, L3 caches, cores.
std::string describe(const HostTopology& host, std::span<const NetInterface> interfaces = {});

// The same as one JSON object; CPU lists as text ("0-3,8"), the host id as 16 hex digits. With a
// graph of GPUs and network ports also that, as "graph".
std::string describe_json(const HostTopology& host, std::span<const NetInterface> interfaces = {},
                          const Graph* graph = nullptr);

// "32 MiB", "1.5 GiB", "0 B": exact where it can be said with one digit after the point.
std::string bytes_text(std::uint64_t bytes);

}  // namespace rondo::topology
