// SPDX-License-Identifier: Apache-2.0
// fit_device_costs(): fits the cost rates to measured calls on GPUs; for host memory see
// host_costs.h.
//
// A GPU plan's time is not a sum of products (device_work.h takes the slower of a CTA and its
// wire), so rates are searched one after the other, by factors. Errors are ratios; half and double
// are equally wrong. A rate that hardly changes any prediction counts as not measured and keeps its
// prior; so does a rate that no call used, such as links with one GPU. Pure. Cost: about 100
// predictions per rate and sample.
#pragma once

#include <span>

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

struct DeviceSample {
  DevicePlanFacts facts;  // its costs are ignored
  CallRecord record;
  DevicePlan plan;
  double ns = 0;  // what the call took

  double predicted(const DeviceCosts& costs) const;
};

DeviceCosts fit_device_costs(std::span<const DeviceSample> samples);

// Share of the samples whose prediction is within this factor of the measurement.
double share_within(std::span<const DeviceSample> samples, const DeviceCosts& costs, double factor);

}  // namespace rondo::gpu
