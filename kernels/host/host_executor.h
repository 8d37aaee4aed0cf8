// SPDX-License-Identifier: Apache-2.0
// The host executor's entry points: each runs one collective with an algorithm. The only place that
// combines algorithms with executors on the host.
//
// All return false if there is no such algorithm or the call failed: a wait was aborted, or memory
// is missing. The communicator has recorded why.
#pragma once

#include "kernels/algorithms/hierarchical.h"
#include "kernels/algorithms/ring.h"
#include "kernels/algorithms/table.h"
#include "kernels/host/host_rank.h"
#include "kernels/host/slot_primitives.h"
#include "kernels/primitives.h"

namespace rondo::host {

// How the data of a direct call travels: in announcements, in lines beside them, or in staging
// memory and the callers' buffers.
enum class Carrier { kLine, kLines, kStaging };

// Ranks of one host, by a PeerMemory algorithm.
bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, Carrier carrier,
                const Rounds& rounds);

// Over connections.
bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds);

// Ranks on several hosts: StagedMemory inside the host, SlotPrimitives between hosts. `call`: the
// buffers of the whole communicator. `cross`: connections to ranks of the communicator; it refers
// to cross_call, whose buffers this function sets.
bool run_hierarchical(HostRank& rank, const HostCall& call, ConnectedCall& cross,
                      HostCall& cross_call, const HostMap& map, const Rounds& rounds,
                      std::uint64_t longest);

}  // namespace rondo::host
