// device_ns(): what a plan on GPUs would take, by the priors of device_costs.h: steps of the
// slowest path, bytes of the busiest wire, launches, meetings. The planner takes the plan of least
// time (device_strategies.cc); ncclGroupSimulateEnd and explanations tell it.
//
// Nothing was measured. What wires cost whom, `rondo simulate` plays on the same priors. A pure
// function of what all ranks agreed on: + - * / on doubles alone, so that all compute the same
// bits. Cost: some tens of operations.
#pragma once

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan);
// Of the plan that the call would have, in nanoseconds; 0 where nothing can run it.
double predicted_ns(const DevicePlanFacts& facts, const CallRecord& record);

}  // namespace rondo::gpu
