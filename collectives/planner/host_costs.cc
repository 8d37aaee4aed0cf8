// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/host_costs.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace rondo {
namespace {

constexpr int kRounds = 20, kSweeps = 100;
constexpr double kPullToPrior = 0.002;
constexpr double kLeastOfPrior = 0.01;

// Unit of a sample's error: the geometric mean of measurement and prediction, so that half and
// double are equally wrong.
std::vector<double> units_of(std::span<const CostSample> samples, const HostCosts& costs) {
  std::vector<double> units;
  for (const CostSample& sample : samples)
    units.push_back(std::sqrt(sample.ns * std::max(sample.work.ns(costs), sample.ns / 100)));
  return units;
}

// Coordinate descent: each rate in turn is set to its best value given all others.
void improve(std::span<const CostSample> samples, HostCosts* costs) {
  const std::array<double, kHostRates> priors = host_priors();
  const std::vector<double> units = units_of(samples, *costs);
  std::vector<double> left;
  for (std::size_t i = 0; i < samples.size(); ++i)
    left.push_back((samples[i].ns - samples[i].work.ns(*costs)) / units[i]);
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t rate = 0; rate < kHostRates; ++rate) {
      const double pull = kPullToPrior / (priors[rate] * priors[rate]);
      double up = pull * priors[rate], down = pull;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const double part = samples[i].work.amount[rate] / units[i];
        up += part * (left[i] + part * costs->ns[rate]);
        down += part * part;
      }
      const double best = std::max(up / down, kLeastOfPrior * priors[rate]);
      const double change = best - costs->ns[rate];
      for (std::size_t i = 0; i < samples.size(); ++i)
        left[i] -= samples[i].work.amount[rate] / units[i] * change;
      costs->ns[rate] = best;
    }
}

}  // namespace

HostCosts fit_costs(std::span<const CostSample> samples) {
  HostCosts costs;
  for (int round = 0; round < kRounds; ++round) improve(samples, &costs);
  costs.measured = true;
  return costs;
}

double share_within(std::span<const CostSample> samples, const HostCosts& costs, double factor) {
  assert(factor >= 1);
  const auto close = [&](const CostSample& sample) {
    const double ratio = sample.work.ns(costs) / sample.ns;
    return ratio <= factor && ratio * factor >= 1;
  };
  if (samples.empty()) return 0;
  return static_cast<double>(std::count_if(samples.begin(), samples.end(), close)) /
         static_cast<double>(samples.size());
}

}  // namespace rondo
