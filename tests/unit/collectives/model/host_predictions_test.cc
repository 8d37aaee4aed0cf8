// SPDX-License-Identifier: Apache-2.0
// Collectives in host memory: the simulator against the closed form that the planner uses.
#include "collectives/model/host_predictions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/collectives/planner/host_calls.h"

namespace rondo::model {
namespace {

using test::call_of_bytes;

PlanFacts facts_on(int ranks, int cores, bool threads = false) {
  PlanFacts facts = test::facts_on(ranks);
  facts.one_process = threads;
  facts.core_share = std::max(1.0, static_cast<double>(ranks) / cores);
  return facts;
}

constexpr Collective kSimulated[] = {Collective::kAllReduce,     Collective::kAllGather,
                                     Collective::kReduceScatter, Collective::kAllToAll,
                                     Collective::kBroadcast,     Collective::kReduce,
                                     Collective::kGather,        Collective::kScatter};

// Simulated time divided by the closed form's, over all calls and variants; ranks are processes.
// For threads the closed form counts work that in-place calls do not do. It treats all cores as
// equal, also if they serve different numbers of ranks.
struct Apart {
  double minimum = 1e9, maximum = 0;
  std::string least_call, max_call;
};
void compare(Collective collective, int ranks, int cores, std::uint64_t from, Apart* apart) {
  const PlanFacts facts = facts_on(ranks, cores);
  for (std::uint64_t bytes = from; bytes <= 16 << 20; bytes *= 4) {
    const CallRecord record = call_of_bytes(collective, bytes);
    for (const HostWay& way : host_ways(facts, record)) {
      if (way.plan.strategy != Strategy::kDirect) continue;
      const auto simulated = predict_host(facts, cores, record, way);
      ASSERT_TRUE(simulated.ok()) << simulated.error().text;
      const double ratio = simulated->us / way.planner_us;
      const std::string call = way.name + ' ' + to_string(record) + ", " + std::to_string(ranks) +
                               " ranks on " + std::to_string(cores) + " cores";
      if (ratio < apart->minimum) apart->minimum = ratio, apart->least_call = call;
      if (ratio > apart->maximum) apart->maximum = ratio, apart->max_call = call;
    }
  }
}

using Collectives = std::initializer_list<Collective>;
constexpr Collectives kEven = {Collective::kAllReduce, Collective::kAllGather,
                               Collective::kReduceScatter, Collective::kAllToAll};
constexpr Collectives kRooted = {Collective::kBroadcast, Collective::kReduce, Collective::kGather,
                                 Collective::kScatter};
constexpr std::pair<int, int> kOwnCores[] = {{2, 2}, {3, 3}, {8, 8}, {16, 16}};
constexpr std::pair<int, int> kSharedCores[] = {{4, 2}, {8, 2}, {16, 4}, {12, 1}};
constexpr std::uint64_t kSmall = 64, kLarge = 1 << 20;

template <class Places>
void expect_between(Collectives collectives, const Places& places, std::uint64_t from,
                    double minimum, double maximum) {
  Apart found;
  for (const Collective collective : collectives)
    for (const auto& [ranks, cores] : places) compare(collective, ranks, cores, from, &found);
  EXPECT_GE(found.minimum, minimum) << found.least_call;
  EXPECT_LE(found.maximum, maximum) << found.max_call;
}

TEST(HostPredictions, AreNearTheClosedFormWhereAllRanksDoTheSame) {
  expect_between(kEven, kOwnCores, kSmall, 0.88, 1.06);
  expect_between(kEven, kSharedCores, kLarge, 0.9, 1.02);
}

// A root runs ahead of its readers; the closed form models this as a number of rounds.
TEST(HostPredictions, AreNearTheClosedFormOfCallsWithARoot) {
  expect_between(kRooted, kOwnCores, kSmall, 0.75, 1.55);
  expect_between(kRooted, kSharedCores, kLarge, 0.85, 1.45);
}

// A core that serves s ranks switches s - 1 times per barrier; the closed form counts one more.
TEST(HostPredictions, SeeASwitchLessAMeetingThanTheClosedForm) {
  const CallRecord record = call_of_bytes(Collective::kAllReduce, 64);
  for (const auto& [ranks, cores] : {std::pair{4, 2}, {8, 2}, {16, 4}, {8, 1}, {16, 2}}) {
    const PlanFacts facts = facts_on(ranks, cores);
    for (const HostWay& way : host_ways(facts, record)) {
      if (way.name != "oneshot" && way.name != "twoshot") continue;
      const auto simulated = predict_host(facts, cores, record, way);
      ASSERT_TRUE(simulated.ok()) << simulated.error().text;
      const int meetings = way.name == "oneshot" ? 1 : 2;
      const double one = facts.costs.of(HostRate::kSwitch) / 1000;
      EXPECT_NEAR(way.planner_us - simulated->us, meetings * one, 0.15 * meetings * one)
          << way.name << ", " << ranks << " ranks on " << cores << " cores";
    }
  }
}

TEST(HostPredictions, FindDataWhereThePlanPutsThem) {
  const auto place = [](bool threads, std::uint64_t bytes) {
    const PlanFacts facts = facts_on(4, 4, threads);
    const CallRecord record = call_of_bytes(Collective::kAllReduce, bytes);
    return host_call(facts, 4, record, host_ways(facts, record).front().plan).place;
  };
  for (const bool threads : {false, true})
    EXPECT_EQ(place(threads, kSmall), sim::HostPath::kLines) << threads;
  EXPECT_EQ(place(false, kLarge), sim::HostPath::kStaging);
  EXPECT_EQ(place(true, kLarge), sim::HostPath::kBuffers);
}

TEST(HostPredictions, SimulateEachWayAndMarkThePlanners) {
  PlanFacts facts = facts_on(8, 2);
  for (const Collective collective : kSimulated) {
    const auto ways = host_ways(facts, call_of_bytes(collective, 64 << 10));
    EXPECT_EQ(std::count_if(ways.begin(), ways.end(), [](const HostWay& w) { return w.chosen; }), 1)
        << name(collective);
    EXPECT_TRUE(ways.front().chosen) << name(collective);
  }
  // One of the algorithms that NCCL_ALGO permits is chosen; all are listed.
  facts.algorithms = *parse_algorithms("ring", "test");
  const CallRecord record = call_of_bytes(Collective::kAllReduce, 64 << 10);
  const auto ways = host_ways(facts, record);
  EXPECT_EQ(ways.size(), 5U);
  for (const HostWay& way : ways) {
    EXPECT_EQ(way.chosen, way.name == "ring");
    const auto prediction = predict_host(facts, 2, record, way);
    ASSERT_TRUE(prediction.ok());
    EXPECT_EQ(prediction->by == Prediction::By::kClosedForm, way.plan.strategy != Strategy::kDirect)
        << way.name;
  }
  EXPECT_TRUE(host_ways(facts, call_of_bytes(Collective::kSend, 64)).empty());
  EXPECT_TRUE(host_ways(facts, call_of_bytes(Collective::kAllToAllV, 64)).empty());
}

// The simulator uses the rates that rondo tune has measured.
TEST(HostPredictions, FollowTheCosts) {
  PlanFacts facts = facts_on(4, 2);
  const CallRecord record = call_of_bytes(Collective::kAllReduce, 64);
  const auto us = [&] { return predict_host(facts, 2, record, host_ways(facts, record)[0])->us; };
  const double before = us();
  facts.costs.ns[static_cast<std::size_t>(HostRate::kSwitch)] += 1000;
  EXPECT_NEAR(us(), before + 1, 1e-6);  // two ranks per core: one switch per call
}

}  // namespace
}  // namespace rondo::model
