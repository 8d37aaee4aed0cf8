// Runs one collective of ranks on several hosts by a text over two views. The only place that pairs
// those texts with host executors: StagedMemory inside the host, SlotPrimitives across.
#pragma once

#include "kernels/algorithms/host_map.h"
#include "kernels/host/slot_primitives.h"

namespace rondo::host {

// `call` with the buffers of the whole communicator; `cross` lends connections to ranks of the
// communicator and belongs to a call whose buffers this function sets. False if the call failed
// (the communicator knows why) or no text exists for it.
bool run_hierarchical(HostRank& rank, const HostCall& call, ConnectedCall& cross,
                      HostCall& cross_call, const HostMap& map, const Rounds& rounds,
                      std::uint64_t longest);

}  // namespace rondo::host
