// What rondo tune prints: the rates that it found beside their priors, and every call beside what
// they predict.
#pragma once

#include <cstddef>
#include <vector>

#include "api/cli/tune_run.h"
#include "collectives/planner/cost_fit.h"
#include "collectives/planner/device_fit.h"

namespace rondo::cli {

// Predictions within them are called close, and good enough to choose by.
inline constexpr double kCloseFactor = 1.25, kUsableFactor = 1.5;

void print_rates(const HostCosts& costs);
// Says also what was not measured, and why.
void print_rates(const gpu::DeviceCosts& costs, int devices);

void print_calls(const std::vector<MeasuredCall>& calls, const std::vector<CostSample>& samples,
                 const HostCosts& costs);
void print_calls(const std::vector<MeasuredCall>& calls,
                 const std::vector<gpu::DeviceSample>& samples, const gpu::DeviceCosts& costs);

void print_share(double close, std::size_t calls);

}  // namespace rondo::cli
