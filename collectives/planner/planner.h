// SPDX-License-Identifier: Apache-2.0
// The planner: decides which algorithm runs a call, and in which rounds. A pure function.
//
// Its inputs are what all ranks agreed on at init (PlanFacts) and the fingerprinted fields of the
// call, so all ranks choose the same. Each candidate is a row in host_strategies.cc; the one with
// the least predicted time is taken (host_work.h). tuning.h holds what the cost model does not
// decide.
#pragma once

#include "base/result.h"
#include "base/types.h"
#include "collectives/planner/host_plan.h"

namespace rondo {

// Fails with kInvalidUsage, naming the requested algorithms, if none is left. A barrier between
// hosts is planned as a sum of one int32 per rank.
Result<Plan> make_plan(const PlanFacts& facts, const CallRecord& record);
// The work of a plan. Plans without an algorithm (one rank, messages) count only their calls and
// bytes.
HostWork host_work(const PlanFacts& facts, const CallRecord& record, const Plan& plan);
// Predicted time of the call in nanoseconds, by the costs of the facts; 0 if nothing can run it.
double predicted_ns(const PlanFacts& facts, const CallRecord& record);

// Which calls of a group run as one: consecutive small calls of one kind.
//
// A pure function of what all ranks agree on, so all ranks fuse the same calls if they make the
// same group. Cost: a few comparisons per call.
//
// True if a call may be part of a fused call.
bool is_fusable(const PlanFacts& facts, const CallRecord& record);
// True if it may join a fused call that begins with `first`.
bool may_join(const CallRecord& first, const CallRecord& next);

// True if the larger side of a collective has one block per rank; else it has one block.
bool has_blocks(Collective collective);

}  // namespace rondo
