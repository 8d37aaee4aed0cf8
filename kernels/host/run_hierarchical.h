// SPDX-License-Identifier: Apache-2.0
// Runs one collective of ranks on several hosts with a hierarchical algorithm. The only place that
// combines these algorithms with host executors: StagedMemory inside the host, SlotPrimitives
// between hosts.
#pragma once

#include "kernels/algorithms/hierarchical.h"
#include "kernels/host/slot_primitives.h"

namespace rondo::host {

// `call`: the buffers of the whole communicator. `cross`: connections to ranks of the communicator;
// it refers to cross_call, whose buffers this function sets. False if the call failed (the
// communicator has recorded why) or there is no such algorithm.
bool run_hierarchical(HostRank& rank, const HostCall& call, ConnectedCall& cross,
                      HostCall& cross_call, const HostMap& map, const Rounds& rounds,
                      std::uint64_t longest);

}  // namespace rondo::host
