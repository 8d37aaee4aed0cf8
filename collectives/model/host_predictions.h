// What ranks in host memory of one host would take for a call: texts over peers' memory played in
// virtual time (kernels/sim/simulate_host.h), beside the closed form that the planner chooses by.
//
// Both count on the costs of the facts: priors, or what `rondo tune` has measured. Buffers are out
// of place but in broadcasts. Connections are not played: their times are the closed form's. Cost:
// see there.
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
  bool chosen = false;  // by the filters of the facts
};
// Every way to run the call, the planner's best one first, whatever NCCL_ALGO allows; none of calls
// with a count for each rank, of messages, of calls without data.
std::vector<HostWay> host_ways(const PlanFacts& facts, const CallRecord& record);

// For ranks that are distributed over `cores` cores.
Result<Prediction> predict_host(const PlanFacts& facts, int cores, const CallRecord& record,
                                const HostWay& way);

// What the simulator is asked of a plan whose text is over peers' memory.
sim::SimHostCall host_call(const PlanFacts& facts, int cores, const CallRecord& record,
                           const Plan& plan);

}  // namespace rondo::model
