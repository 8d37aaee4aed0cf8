// Which calls of a group run as one: small ones of one kind, one after the other.
//
// A pure function of what all ranks agree on, so that all fuse alike as long as they make the same
// group. Cost: a few comparisons a call.
#pragma once

#include "collectives/planner/planner.h"

namespace rondo {

// Whether a call may be part of a fused one at all.
bool is_fusable(const PlanFacts& facts, const CallRecord& record);
// Whether it may join one that begins with `first`.
bool may_join(const CallRecord& first, const CallRecord& next);

// Blocks of the larger side of a collective: one, or one a rank.
bool has_blocks(Collective collective);

}  // namespace rondo
