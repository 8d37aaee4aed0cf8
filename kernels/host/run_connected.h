// SPDX-License-Identifier: Apache-2.0
// Runs one collective with an algorithm over connections. The only place that combines algorithms
// over Links with the host executor.
#pragma once

#include "kernels/algorithms/ring.h"
#include "kernels/algorithms/table.h"
#include "kernels/host/slot_primitives.h"

namespace rondo::host {

// False if the call failed (the communicator has recorded why) or there is no such algorithm.
bool run_connected(ConnectedCall& call, Algorithm algorithm, const RingView& ring,
                   const Rounds& rounds);

}  // namespace rondo::host
