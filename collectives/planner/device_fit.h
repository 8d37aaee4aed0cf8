// fit_device_costs(): the rates by which measured calls on GPUs take the time that they took, as
// cost_fit.h for host memory.
//
// What a plan takes is no sum of products here (device_work.h: the slower of a CTA and its wire
// counts), so rates are searched for one after the other, by factors. Errors are ratios, half and
// double equally wrong. A rate that hardly moves any prediction was not measured and stays a prior;
// so do those whose unit no call had, such as links on one GPU. Pure. Cost: some 100 predictions a
// rate and sample.
#pragma once

#include <span>

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {

struct DeviceSample {
  DevicePlanFacts facts;  // whose costs do not count
  CallRecord record;
  DevicePlan plan;
  double ns = 0;  // what the call took

  double predicted(const DeviceCosts& costs) const;
};

DeviceCosts fit_device_costs(std::span<const DeviceSample> samples);

// What part of the samples is predicted within this factor of what was measured.
double share_within(std::span<const DeviceSample> samples, const DeviceCosts& costs, double factor);

}  // namespace rondo::gpu
