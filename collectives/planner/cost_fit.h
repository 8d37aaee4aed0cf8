// fit_costs(): the rates by which measured calls take the time that they took.
//
// Least squares of relative errors, in which half and double are equally wrong, with rates that are
// above zero; a rate that no sample says anything of stays at its prior, to which all are drawn a
// little. Pure. Cost: microseconds a sample.
#pragma once

#include <span>

#include "collectives/planner/host_costs.h"

namespace rondo {

struct CostSample {
  HostWork work;
  double ns = 0;
};

HostCosts fit_costs(std::span<const CostSample> samples);

// What part of the samples is predicted within this factor of what was measured (1.25: between 0.8
// and 1.25).
double share_within(std::span<const CostSample> samples, const HostCosts& costs, double factor);

}  // namespace rondo
