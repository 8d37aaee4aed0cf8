// Runs one collective of a host view by a PeerMemory algorithm. The only place that pairs texts
// with host executors.
#pragma once

#include "kernels/algorithms/table.h"
#include "kernels/host/host_rank.h"
#include "kernels/primitives.h"

namespace rondo::host {

// What carries the data: announcements, the lines beside them, or staging memory and the callers'
// buffers.
enum class Carrier { kLine, kLines, kStaging };

// Returns false if a wait was ended or memory was missing; the communicator then knows why.
bool run_direct(HostRank& rank, const HostCall& call, Algorithm algorithm, Carrier carrier,
                const Rounds& rounds);

}  // namespace rondo::host
