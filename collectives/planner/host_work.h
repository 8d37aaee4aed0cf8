// host_work(): what a plan makes a rank in host memory do: meetings, chunks handed on, bytes copied
// and summed, bytes between hosts. Its time is work.ns(costs).
//
// Of the busiest rank, in calls that follow each other. Where ranks share cores, a core does the
// work of all of its ranks, and every meeting is a switch to each of them. Guarantees: a pure
// function of what all ranks agreed on; + - * / alone. Cost: some tens of operations.
#pragma once

#include "collectives/planner/planner.h"

namespace rondo {

// Plans without a text (one rank, messages) are so much work as their calls and bytes are.
HostWork host_work(const PlanFacts& facts, const CallRecord& record, const Plan& plan);

}  // namespace rondo
