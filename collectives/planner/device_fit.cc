// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/device_fit.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "collectives/planner/device_plan.h"

namespace rondo::gpu {
namespace {

// Factors of the search steps, from the first to the last.
constexpr double kFirstStep = 4, kLastStep = 1.005;
constexpr int kSweeps = 200;
constexpr double kPullToPrior = 0.001;  // per sample, for a rate that is wrong by a factor of e
// Limits of a rate relative to its prior. Emulated GPUs take a thousand times as long.
constexpr double kLeastOfPrior = 0.01, kMaxOfPrior = 1e6;
// A rate counts as measured if doubling it changes kInformativeSamples predictions by
// kInformativeChange.
constexpr int kInformativeSamples = 2;
constexpr double kInformativeChange = 1.1;

double squared_log(double ratio) {
  const double log = std::log(ratio);
  return log * log;
}

// Error of the costs on the samples.
double error_of(std::span<const DeviceSample> samples, const DeviceCosts& costs) {
  double error = 0;
  for (const DeviceSample& sample : samples)
    error += squared_log(sample.predicted(costs) / sample.ns);
  const double pull = kPullToPrior * static_cast<double>(samples.size());
  for (const DeviceRateInfo& info : kDeviceRateTable)
    error += pull * squared_log(costs.of(info.rate) / info.prior) / kDeviceRates;
  return error;
}

// Moves each rate in turn up or down by the step if that helps; true if any did.
bool improve(std::span<const DeviceSample> samples, std::span<const DeviceRateInfo> rates,
             double step, DeviceCosts* costs, double* error) {
  bool improved = false;
  for (const DeviceRateInfo& info : rates)
    for (const double factor : {step, 1 / step}) {
      double& rate = costs->ns[static_cast<std::size_t>(info.rate)];
      const double before = rate;
      rate = std::clamp(before * factor, kLeastOfPrior * info.prior,
                        std::min(kMaxOfPrior * info.prior, DeviceCosts::kMaxNs));
      const double now = error_of(samples, *costs);
      if (now >= *error) {
        rate = before;
        continue;
      }
      *error = now;
      improved = true;
      break;
    }
  return improved;
}

bool is_determined(std::span<const DeviceSample> samples, const DeviceCosts& costs,
                   DeviceRate rate) {
  DeviceCosts dearer = costs;
  dearer.ns[static_cast<std::size_t>(rate)] *= 2;
  const auto depends = [&](const DeviceSample& sample) {
    return sample.predicted(dearer) > kInformativeChange * sample.predicted(costs);
  };
  return std::count_if(samples.begin(), samples.end(), depends) >= kInformativeSamples;
}

}  // namespace

double DeviceSample::predicted(const DeviceCosts& costs) const {
  DevicePlanFacts where = facts;
  where.costs = costs;
  return device_ns(where, record, plan);
}

DeviceCosts fit_device_costs(std::span<const DeviceSample> samples) {
  std::uint32_t used = 0;
  for (const DeviceSample& sample : samples)
    used |= rates_of(sample.facts, sample.record, sample.plan);
  std::vector<DeviceRateInfo> rates;
  for (const DeviceRateInfo& info : kDeviceRateTable)
    if ((used & bit_of(info.rate)) != 0) rates.push_back(info);
  DeviceCosts fitted;
  double error = error_of(samples, fitted), step = kFirstStep;
  for (int sweep = 0; sweep < kSweeps && step > kLastStep; ++sweep)
    if (!improve(samples, rates, step, &fitted, &error)) step = std::sqrt(step);
  DeviceCosts costs;
  for (const DeviceRateInfo& info : rates)
    if (is_determined(samples, fitted, info.rate)) costs.set(info.rate, fitted.of(info.rate));
  return costs;
}

double share_within(std::span<const DeviceSample> samples, const DeviceCosts& costs,
                    double factor) {
  assert(factor >= 1);
  const auto close = [&](const DeviceSample& sample) {
    const double ratio = sample.predicted(costs) / sample.ns;
    return ratio <= factor && ratio * factor >= 1;
  };
  if (samples.empty()) return 0;
  return static_cast<double>(std::count_if(samples.begin(), samples.end(), close)) /
         static_cast<double>(samples.size());
}

}  // namespace rondo::gpu
