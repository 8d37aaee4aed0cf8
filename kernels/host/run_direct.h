// SPDX-License-Identifier: Apache-2.0
// Runs one collective of the ranks of one host with a PeerMemory algorithm. The only place that
// combines these algorithms with host executors.
#pragma once

#include "kernels/algorithms/table.h"
#include "kernels/host/host_rank.h"
#include "kernels/primitives.h"

namespace rondo::host {

// How the data travels: in announcements, in lines beside them, or in staging memory and the
// callers' buffers.
enum class Carrier { kLine, kLines, kStaging };

// Returns false if a wait was aborted or memory is missing; the communicator has recorded why.
bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, Carrier carrier,
                const Rounds& rounds);

}  // namespace rondo::host
