// SPDX-License-Identifier: Apache-2.0
// shrink_to(): the survivors of a communicator meet and create a child.
//
// All tries of all lists of survivors that begin with the same rank (the leader) meet at one id, so
// no private count can keep ranks apart. The leader begins a meeting each time it tries; the others
// join the one that is open, or wait for the next. A try succeeds for all survivors or fails for
// all who came: at the shortest init timeout among them, when one of them gives up, or at once
// when
//  - a survivor's process has ended, or its communicator was destroyed,
//  - two survivors have named different ranks.
// The error names that rank in the parent's numbers. Then every rank may try again, with the same
// or another list. Guarantees: no rank has a child whose other ranks have given up before the last
// exchange; who gives up later publishes a fault in that child, so that its calls end by name. A
// rank that is not a survivor is not waited for. Cost: a child's init and one exchange; while the
// ranks meet, one look at each survivor of this host every 50 ms, and the leader holds a
// connection to each survivor of other hosts. Those hold one to it, and after half a second to the
// first 16 survivors; then each rank also asks for the lists of other hosts (remote_lists.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

// The child. survivors: ranks of the parent, ascending, this one among them.
Result<std::unique_ptr<CommunicatorState>> shrink_to(CommunicatorState& parent,
                                                     const std::vector<int>& survivors,
                                                     const CommOptions& options,
                                                     std::function<bool()> aborted);

}  // namespace rondo
