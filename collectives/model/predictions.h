// SPDX-License-Identifier: Apache-2.0
// Predictions: predicted times of the ways to run a call on the GPUs of a cluster, by simulation
// with priors (planner/device_costs.h). Unmeasured.
//
// Rings and messages of too many ranks to simulate use a closed form; tests compare it with the
// simulator. Cost: see kernels/sim/simulate.h.
#pragma once

#include <string>
#include <vector>

#include "collectives/model/gpu_cluster.h"
#include "collectives/model/ways.h"
#include "collectives/planner/strategy.h"
#include "kernels/sim/simulate.h"

namespace rondo::model {

struct Prediction {
  double us = 0;
  enum class By { kSimulation, kExtrapolation, kClosedForm } by = By::kSimulation;
  std::string busiest;       // the busiest wire; empty: unknown
  double busiest_share = 0;  // share of the time that it is busy
};
Result<Prediction> predict(const GpuCluster& cluster, const CallRecord& record, const Way& way);

// The simulator's input for a way whose algorithm it can run.
sim::SimCall call_of(const GpuCluster& cluster, const CallRecord& record, const Way& way);
// Rings only: all ranks move in lockstep at the speed of the slowest step.
double closed_form_ns(const sim::Machine& machine, const sim::SimCall& call);

// Maximum of ranks times rings for which rings are simulated; above it the closed form is used.
inline constexpr int kMaxSimulated = 4096;

// Input for bus bandwidth: moved bytes, and their factor (bench/kinds.h).
struct BusBytes {
  double moved = 0, factor = 1;
};

// Rows of `rondo explain --topo` about a call on a machine, in addition to the algorithm that would
// run: its predicted time, faster alternatives, the limiting wire, and the size at which another
// algorithm runs. Costs are priors. If no algorithm of the call is simulated, one row reports that.
Result<std::vector<ExplainRow>> explain_prediction(const GpuCluster& cluster,
                                                   const CallRecord& record, BusBytes bytes,
                                                   const Wishes& wishes = {});

}  // namespace rondo::model
