// SPDX-License-Identifier: Apache-2.0
// fit_costs(): fits the cost rates to measured calls.
//
// Minimizes the squares of relative errors, in which half and double are equally wrong. Rates stay
// above zero. All rates are pulled slightly towards their priors; a rate that no sample depends on
// keeps its prior. Pure. Cost: microseconds per sample.
#pragma once

#include <span>

#include "collectives/planner/host_costs.h"

namespace rondo {

struct CostSample {
  HostWork work;
  double ns = 0;
};

HostCosts fit_costs(std::span<const CostSample> samples);

// Share of the samples whose prediction is within this factor of the measurement (1.25: between 0.8
// and 1.25).
double share_within(std::span<const CostSample> samples, const HostCosts& costs, double factor);

}  // namespace rondo
