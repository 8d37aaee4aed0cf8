// SPDX-License-Identifier: Apache-2.0
// Predicted times of a call for ranks in host memory of one host: algorithms over peers' memory
// simulated in virtual time (kernels/sim/simulate_host.h), next to the closed form by which the
// planner chooses.
//
// Both use the costs in the facts: priors, or rates that `rondo tune` measured. Buffers are out of
// place, except in broadcasts. Connections are not simulated: their times are the closed form's.
// Cost: see kernels/sim/simulate_host.h.
//
//   for (const HostWay& way : host_ways(facts, record)) predict_host(facts, cores, record, way);
#pragma once

#include <string>
#include <vector>

#include "collectives/model/predictions.h"
#include "collectives/planner/planner.h"
#include "kernels/sim/simulate_host.h"

namespace rondo::model {

struct HostWay {
  std::string name;  // "oneshot", "ring", ...
  Plan plan;
  double planner_us = 0;
  bool chosen = false;  // the planner's choice under the filters of the facts
};
// All ways to run the call, the cheapest first, regardless of NCCL_ALGO. Empty for calls with a
// count per rank, for messages, and for calls without data.
std::vector<HostWay> host_ways(const PlanFacts& facts, const CallRecord& record);

// For ranks distributed over `cores` cores.
Result<Prediction> predict_host(const PlanFacts& facts, int cores, const CallRecord& record,
                                const HostWay& way);

// The simulator's input for a plan whose algorithm runs over peers' memory.
sim::SimHostCall host_call(const PlanFacts& facts, int cores, const CallRecord& record,
                           const Plan& plan);

}  // namespace rondo::model
