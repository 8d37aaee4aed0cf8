// device_ns(): what a plan on GPUs would take, by the costs of the facts: steps of the
// slowest path, bytes of the busiest wire, launches, meetings. The planner takes the plan of least
// time (device_strategies.cc); ncclGroupSimulateEnd and explanations tell it.
//
// Costs are measured where ranks have files of rondo tune, else priors (device_rates.h), and what
// no file has (device_costs.h). What wires cost whom, `rondo simulate` plays on the same priors. A
// pure function of what all ranks agreed on: + - * / on doubles alone, so that all compute the same
// bits. Cost: some tens of operations.
#pragma once

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

double device_ns(const DevicePlanFacts& facts, const CallRecord& record, const DevicePlan& plan);
// By which rates that time changes: bit_of(DeviceRate). Cost: a prediction a rate.
std::uint32_t rates_of(const DevicePlanFacts& facts, const CallRecord& record,
                       const DevicePlan& plan);
// Of the plan that the call would have, in nanoseconds; 0 where nothing can run it.
double predicted_ns(const DevicePlanFacts& facts, const CallRecord& record);

}  // namespace rondo::gpu
