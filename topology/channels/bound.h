// What no set of channels can pass: the narrowest cut of the wires that routes use.
//
// A ring on one host passes every cut between two of its GPUs both ways. A way through a host
// passes every cut between the network and a GPU both ways, every cut between two GPUs at least one
// way, and both ways where it leaves by the port by which it came. The narrowest cut is a maximum
// flow (Ford and Fulkerson 1956; by shortest ways: Edmonds and Karp 1972). A GPU's own links and a
// host's ports are such cuts, too. Nothing of the search goes in here.
//
// Cost: four flows a GPU, each O(nodes * wires^2) at worst; 8 GPUs take microseconds.
#pragma once

#include "topology/channels/ports.h"
#include "topology/channels/wires.h"

namespace rondo::topology {

// GB/s of all channels together: of rings where `wires` have no ports. Infinite: nothing is passed.
double bound_gbs(const Wires& wires, PortUse ports);

}  // namespace rondo::topology
