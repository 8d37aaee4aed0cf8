// An upper bound for the rate of any set of channels: the minimum cut of the wires that routes use.
//
// A ring on one host crosses every cut between two of its GPUs in both directions. A path through a
// host crosses every cut between the network and a GPU in both directions. It crosses every cut
// between two GPUs in at least one direction, and in both if it leaves by the port by which it
// entered. The minimum cut is a maximum flow (Ford and Fulkerson 1956; by shortest paths: Edmonds
// and Karp 1972). A GPU's own links and a host's ports are also such cuts. The bound does not
// depend on the search.
//
// Cost: four flows per GPU, each O(nodes * wires^2) at worst; 8 GPUs take microseconds.
#pragma once

#include "topology/channels/ports.h"
#include "topology/channels/wires.h"

namespace rondo::topology {

// In GB/s, for all channels together; for rings if `wires` have no ports. Infinite: no traffic.
double bound_gbs(const Wires& wires, PortUse ports);

}  // namespace rondo::topology
