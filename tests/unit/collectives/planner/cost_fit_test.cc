// SPDX-License-Identifier: Apache-2.0
// Fitting rates to calls returns the rates from which the calls were generated.
#include "collectives/planner/host_costs.h"

#include <gtest/gtest.h>

#include <random>

namespace rondo {
namespace {

std::vector<CostSample> calls_at(const HostCosts& costs, double noise) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> amount(0, 1000), error(1 - noise, 1 + noise);
  std::vector<CostSample> samples;
  for (int i = 0; i < 300; ++i) {
    CostSample sample;
    for (std::size_t rate = 0; rate < kHostRates; ++rate)
      if ((i + static_cast<int>(rate)) % 3 != 0)
        sample.work.amount[rate] = amount(random) / costs.ns[rate];
    sample.ns = sample.work.ns(costs) * error(random);
    samples.push_back(sample);
  }
  return samples;
}

HostCosts other_than_priors() {
  HostCosts costs;
  for (std::size_t rate = 0; rate < kHostRates; ++rate) costs.ns[rate] *= rate % 2 == 0 ? 3.0 : 0.4;
  return costs;
}

TEST(CostFit, FindsTheRatesThatMadeTheCalls) {
  const HostCosts made = other_than_priors();
  const HostCosts found = fit_costs(calls_at(made, 0));
  for (std::size_t rate = 0; rate < kHostRates; ++rate)
    EXPECT_NEAR(found.ns[rate] / made.ns[rate], 1, 0.02) << kHostRateTable[rate].name;
  EXPECT_TRUE(found.measured);
}

TEST(CostFit, StandsSomeNoise) {
  const HostCosts made = other_than_priors();
  const std::vector<CostSample> calls = calls_at(made, 0.2);
  const HostCosts found = fit_costs(calls);
  for (std::size_t rate = 0; rate < kHostRates; ++rate)
    EXPECT_NEAR(found.ns[rate] / made.ns[rate], 1, 0.15) << kHostRateTable[rate].name;
  EXPECT_EQ(share_within(calls, found, 1.5), 1);
  EXPECT_LT(share_within(calls, HostCosts{}, 1.25), 0.7);
}

TEST(CostFit, LeavesARateOfWhichNothingWasMeasuredAtItsPrior) {
  std::vector<CostSample> calls = calls_at(other_than_priors(), 0);
  const auto link = static_cast<std::size_t>(HostRate::kLink);
  for (CostSample& call : calls) {
    call.work.amount[link] = 0;
    call.ns = call.work.ns(other_than_priors());
  }
  EXPECT_EQ(fit_costs(calls).ns[link], host_priors()[link]);
}

TEST(HostCosts, OfSeveralRanksAreTheSlowestOfEachKind) {
  HostCosts one, other;
  one.ns[0] = 7, other.ns[1] = 1e6;
  one.measured = true;
  HostCosts both = one;
  both.add(other);
  EXPECT_EQ(both.ns[0], other.ns[0]);
  EXPECT_EQ(both.ns[1], 1e6);
  EXPECT_FALSE(both.measured) << "not by all";
}

}  // namespace
}  // namespace rondo
