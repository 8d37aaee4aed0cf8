// SPDX-License-Identifier: Apache-2.0
// host_work(): the work of a plan for a rank in host memory: waits for peers, chunks sent, bytes
// copied and summed, bytes between hosts. Its time is work.ns(costs).
//
// This is the work of the busiest rank in consecutive calls. If ranks share cores, a core does the
// work of all its ranks, and every meeting is a switch to each of them. Guarantees: a pure function
// of what all ranks agreed on; only + - * /. Cost: some tens of operations.
#pragma once

#include "collectives/planner/planner.h"

namespace rondo {

// Plans without an algorithm (one rank, messages) count only their calls and bytes.
HostWork host_work(const PlanFacts& facts, const CallRecord& record, const Plan& plan);

}  // namespace rondo
