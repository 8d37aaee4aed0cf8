// Runs one collective by an algorithm over connections. The only place that pairs texts over Links
// with the host executor.
#pragma once

#include "kernels/algorithms/ring.h"
#include "kernels/algorithms/table.h"
#include "kernels/host/slot_primitives.h"

namespace rondo::host {

// False if the call failed (the communicator knows why) or no text exists for it.
bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds);

}  // namespace rondo::host
