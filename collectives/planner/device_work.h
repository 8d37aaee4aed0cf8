// device_ns(): what a plan on GPUs would take, by the priors of device_costs.h. Nothing was
// measured.
//
// For estimates (ncclGroupSimulateEnd): the order in which ways are chosen is a table of thresholds
// (device_strategies.cc) until a GPU has said otherwise; what wires cost whom, `rondo simulate`
// plays. A pure function. Cost: some tens of operations.
#pragma once

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan);
// Of the plan that the call would have, in nanoseconds; 0 where nothing can run it.
double predicted_ns(const DevicePlanFacts& facts, const CallRecord& record);

}  // namespace rondo::gpu
