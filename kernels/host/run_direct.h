// Runs one collective of a host view by a PeerMemory algorithm. The only place that pairs texts
// with host executors.
#pragma once

#include "kernels/algorithms/table.h"
#include "kernels/host/host_rank.h"
#include "kernels/primitives.h"

namespace rondo::host {

// `line`: the data travels in the announcements (LineMemory), else through StagedMemory.
// Returns false if a wait was ended or memory was missing; the communicator then knows why.
bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, bool line,
                const Rounds& rounds);

}  // namespace rondo::host
