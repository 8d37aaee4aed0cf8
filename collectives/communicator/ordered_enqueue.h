// SPDX-License-Identifier: Apache-2.0
// Groups with ordered reductions (rondoAllReduceOrdered), for ranks on GPUs.
//
// The ranks first tell each other which leaves they hold, on the host: what a rank receives depends
// on it. A group is cut there: what stands before an ordered call is enqueued, then its leaves are
// agreed on, then it is enqueued. So within a communicator a rank in a group waits for no call that
// another rank makes only after the one before. Of several communicators the group's next ordered
// calls are agreed on together: ranks that share two of them put their ordered calls into groups
// alike. Messages, puts and signals come last, as in every group.
//
// Guarantees: calls and their order are those of gpu::enqueue_together(). Leaves that do not make
// up the tree are the same error on all ranks, which go on: also with the group's other calls, of
// this communicator and of others, for which other ranks may wait. Other calls, or other counts
// (also 0), types and operations, are a fault that names both. Every wait ends (meet_in_order()).
// Cost: an exchange by the host for each ordered call, on a thread a rank if a group has several
// ranks; nothing else.
#pragma once

#include <span>

#include "base/result.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/gpu/rank/entry_points.h"

namespace rondo {

// works: of CommunicatorStates.
bool has_ordered(std::span<const gpu::RankWork> works);
Status enqueue_with_ordered(std::span<gpu::RankWork> works);

}  // namespace rondo
