// Predictions: what the ways to run a call on the GPUs of a cluster would take, by simulation on
// priors (planner/device_costs.h): no number here was measured.
//
// Rings and messages of more ranks than are worth playing have a closed form, which tests compare
// with the simulator. Cost: see kernels/sim/simulate.h.
#pragma once

#include <string>

#include "collectives/model/gpu_cluster.h"
#include "collectives/model/ways.h"
#include "kernels/sim/simulate.h"

namespace rondo::model {

struct Prediction {
  double us = 0;
  enum class By { kSimulation, kExtrapolation, kClosedForm } by = By::kSimulation;
  std::string busiest;       // wire; empty: not known
  double busiest_share = 0;  // of the time
};
Result<Prediction> predict(const GpuCluster& cluster, const CallRecord& record, const Way& way);

// What the simulator is asked of algorithms that are texts.
sim::SimCall call_of(const GpuCluster& cluster, const CallRecord& record, const Way& way);
// Of rings alone: all ranks in lockstep at the speed of the slowest step.
double closed_form_ns(const sim::Machine& machine, const sim::SimCall& call);

// Ranks times rings, up to which rings are played; beyond, they have the closed form.
inline constexpr int kMaxPlayed = 4096;

}  // namespace rondo::model
