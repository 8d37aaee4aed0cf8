// Output of rondo tune: the measured rates with their priors, and every measured call with the
// prediction from these rates.
#pragma once

#include <cstddef>
#include <vector>

#include "api/cli/tune_run.h"
#include "collectives/planner/cost_fit.h"
#include "collectives/planner/device_fit.h"

namespace rondo::cli {

// A prediction within kCloseFactor counts as close; within kUsableFactor it can select plans.
inline constexpr double kCloseFactor = 1.25, kUsableFactor = 1.5;

void print_rates(const HostCosts& costs);
// Also prints what was not measured, and why.
void print_rates(const gpu::DeviceCosts& costs, int devices);

void print_calls(const std::vector<MeasuredCall>& calls, const std::vector<CostSample>& samples,
                 const HostCosts& costs);
void print_calls(const std::vector<MeasuredCall>& calls,
                 const std::vector<gpu::DeviceSample>& samples, const gpu::DeviceCosts& costs);

void print_share(double close, std::size_t calls);

}  // namespace rondo::cli
