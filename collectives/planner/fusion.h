// SPDX-License-Identifier: Apache-2.0
// Which calls of a group run as one: consecutive small calls of one kind.
//
// A pure function of what all ranks agree on, so all ranks fuse the same calls if they make the
// same group. Cost: a few comparisons per call.
#pragma once

#include "collectives/planner/planner.h"

namespace rondo {

// True if a call may be part of a fused call.
bool is_fusable(const PlanFacts& facts, const CallRecord& record);
// True if it may join a fused call that begins with `first`.
bool may_join(const CallRecord& first, const CallRecord& next);

// True if the larger side of a collective has one block per rank; else it has one block.
bool has_blocks(Collective collective);

}  // namespace rondo
