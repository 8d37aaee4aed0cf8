// SPDX-License-Identifier: Apache-2.0
// Fitting rates to GPU calls returns the rates from which the calls were generated, if a call
// depends on them. Also tests how the planner uses them and how explanations show them.
#include "collectives/planner/device_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "collectives/gpu/plan/explain_devices.h"
#include "collectives/planner/device_plan.h"

namespace rondo::gpu {
namespace {

struct Way {
  const char* algorithm;
  const char* protocol;
  int ctas;
};
constexpr Way kWays[] = {{"oneshot", "LL", 0},  {"ring", "Simple", 1}, {"ring", "Simple", 8},
                         {"tree", "Simple", 8}, {"ring", "LL", 1},     {"ring", "LL", 8},
                         {"ring", "LL128", 1},  {"ring", "LL128", 8},  {"twoshot", "Simple", 0}};

CallRecord call_of(std::uint64_t bytes, Collective collective = Collective::kAllReduce) {
  return {bytes / 4, collective, DataType::kFloat32, RedOp::kSum, 0, -1};
}

// The time of `ranks` ranks on `devices` GPUs at these costs.
std::vector<DeviceSample> samples_of(int ranks, int devices, const DeviceCosts& costs,
                                     double noise = 0) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> error(1 - noise, 1 + noise);
  std::vector<DeviceSample> samples;
  for (const Way& way : kWays)
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather})
      for (std::uint64_t bytes = 64; bytes <= 64 << 20; bytes *= 8) {
        DeviceSample sample;
        sample.record = call_of(bytes, collective);
        sample.facts = usual_facts(ranks, devices, true, devices > 1);
        sample.facts.algorithms = parse_algorithms(way.algorithm, "test").value();
        sample.facts.protocols = parse_gpu_protocols(way.protocol).value();
        if (way.ctas > 0) sample.facts.min_channels = sample.facts.max_channels = way.ctas;
        const auto plan = make_device_plan(sample.facts, sample.record);
        if (!plan.ok()) continue;
        sample.plan = *plan;
        sample.ns = sample.predicted(costs) * error(random);
        samples.push_back(sample);
      }
  return samples;
}

DeviceCosts other_than_priors() {
  DeviceCosts costs;
  for (std::size_t i = 0; i < kDeviceRates; ++i) costs.ns[i] *= i % 2 == 0 ? 2.0 : 0.6;
  return costs;
}

void expect_near(const DeviceCosts& found, const DeviceCosts& made, double tolerance) {
  for (const DeviceRateInfo& info : kDeviceRateTable) {
    if (!found.is_measured(info.rate)) continue;
    EXPECT_NEAR(found.of(info.rate) / made.of(info.rate), 1, tolerance) << info.name;
  }
}

TEST(DeviceFit, FindsTheRatesThatMadeTheCalls) {
  const DeviceCosts made = other_than_priors();
  std::vector<DeviceSample> calls = samples_of(4, 4, made);
  const std::vector<DeviceSample> on_one = samples_of(4, 1, made);
  calls.insert(calls.end(), on_one.begin(), on_one.end());
  const DeviceCosts found = fit_device_costs(calls);
  EXPECT_GT(share_within(calls, found, 1.1), 0.98);
  EXPECT_LT(share_within(calls, kDevicePriors, 1.1), 0.5);
  for (const DeviceRate rate :
       {DeviceRate::kLaunch, DeviceRate::kLL, DeviceRate::kLL128, DeviceRate::kOwnSimple,
        DeviceRate::kPeerLL, DeviceRate::kMemory, DeviceRate::kPeerByte})
    EXPECT_TRUE(found.is_measured(rate)) << kDeviceRateTable[static_cast<std::size_t>(rate)].name;
  expect_near(found, made, 0.25);
}

TEST(DeviceFit, StandsSomeNoise) {
  const std::vector<DeviceSample> calls = samples_of(4, 1, other_than_priors(), 0.15);
  EXPECT_GT(share_within(calls, fit_device_costs(calls), 1.25), 0.95);
}

TEST(DeviceFit, OnOneGpuMeasuresNoLink) {
  const DeviceCosts found = fit_device_costs(samples_of(4, 1, other_than_priors()));
  EXPECT_TRUE(found.is_measured(DeviceRate::kLaunch));
  for (const DeviceRate rate : {DeviceRate::kPeerSimple, DeviceRate::kPeerLL, DeviceRate::kHostLL,
                                DeviceRate::kPeerByte, DeviceRate::kHostByte}) {
    EXPECT_FALSE(found.is_measured(rate));
    EXPECT_EQ(found.of(rate), kDevicePriors.of(rate));
  }
  EXPECT_EQ(fit_device_costs({}), kDevicePriors);
}

TEST(DeviceCosts, OfSeveralRanksAreTheSlowestOfEachKind) {
  DeviceCosts one, other;
  one.set(DeviceRate::kLaunch, 1e4);
  one.set(DeviceRate::kCta, 1);
  other.set(DeviceRate::kLaunch, 1e3);
  one.add(other);
  EXPECT_EQ(one.of(DeviceRate::kLaunch), 1e4);
  EXPECT_TRUE(one.is_measured(DeviceRate::kLaunch));
  EXPECT_EQ(one.of(DeviceRate::kCta), kDevicePriors.of(DeviceRate::kCta)) << "the other's prior";
  EXPECT_FALSE(one.is_measured(DeviceRate::kCta)) << "not by all";
}

TEST(DeviceCosts, DecideWhichPlanRuns) {
  DevicePlanFacts facts = usual_facts(4, 4, true, true);
  ASSERT_EQ(make_device_plan(facts, call_of(1024))->strategy, Strategy::kLLPush);
  facts.costs.set(DeviceRate::kPeerLL, 1e6);
  EXPECT_NE(make_device_plan(facts, call_of(1024))->protocol, cuda::Protocol::kLL);
}

std::string costs_of(const DevicePlanFacts& facts) {
  for (const ExplainRow& row : explain_on_devices(facts, call_of(1024)))
    if (row.what == "costs") return row.value + "; " + row.why;
  return "no row";
}

TEST(DeviceCosts, AreCalledMeasuredOrPriorInExplanations) {
  DevicePlanFacts facts = usual_facts(4, 4, true, true);
  EXPECT_THAT(costs_of(facts), testing::HasSubstr("assumed, unmeasured")) << costs_of(facts);
  facts.costs.set(DeviceRate::kLaunch, 5000);
  EXPECT_TRUE(costs_of(facts).starts_with("measured in part; by rondo tune; on priors: "))
      << costs_of(facts);
  EXPECT_THAT(costs_of(facts), testing::HasSubstr("peer_ll")) << costs_of(facts);
  for (const DeviceRateInfo& info : kDeviceRateTable) facts.costs.set(info.rate, info.prior);
  EXPECT_EQ(costs_of(facts), "measured; by rondo tune");
}

}  // namespace
}  // namespace rondo::gpu
