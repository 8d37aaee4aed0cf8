// SPDX-License-Identifier: Apache-2.0
// Simulated sums and copies of a switch against times computed by hand.
#include "kernels/sim/sim_barriers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/kernels/sim/timing.h"

namespace rondo::sim {
namespace {

constexpr int kSwitchRanks = 4;
constexpr double kSwitchGbs = 100;

// Wire r leads from rank r to the switch, wire n + r from the switch to rank r.
Machine switched() {
  Machine machine;
  machine.wire_gbs.assign(2 * kSwitchRanks, kSwitchGbs);
  machine.routes = [](int from, int to, int) { return Route{{from, kSwitchRanks + to}, 0, false}; };
  return machine;
}

SimMulticastCall switch_call(Collective collective, std::uint64_t bytes, std::uint64_t rounds) {
  SimMulticastCall call;
  call.collective = collective;
  call.ranks = kSwitchRanks;
  call.count = bytes;
  call.per_round = bytes / rounds;
  call.element_bytes = 1;
  return call;
}

double switch_ns(const SimMulticastCall& call, std::uint64_t rounds = 0) {
  const auto result = simulate_multicast(switched(), call, {rounds});
  EXPECT_TRUE(result.ok()) << result.error().text;
  return result.ok() ? result->ns : -1;
}

// In an all-reduce the data leave a rank once for the sums, and the rank's share leaves again as
// results; the same amount arrives. In a reduce-scatter all blocks leave; in an all-gather all
// blocks arrive.
TEST(SimMulticast, MovesEachByteOnceUpAndOnceDown) {
  constexpr std::uint64_t kBytes = 1 << 20;
  const auto bytes = static_cast<double>(kBytes);
  expect_near(switch_ns(switch_call(Collective::kAllReduce, kBytes, 1)),
              bytes * (1 + 1.0 / kSwitchRanks) / kSwitchGbs);
  expect_near(switch_ns(switch_call(Collective::kReduceScatter, kBytes, 1)),
              bytes * kSwitchRanks / kSwitchGbs);
  expect_near(switch_ns(switch_call(Collective::kAllGather, kBytes, 1)),
              bytes * kSwitchRanks / kSwitchGbs);
}

// With very fast wires, a step costs a barrier, the sums of a share, one round in and one round
// out.
TEST(SimMulticast, StepsAreBarriersSumsAndCopies) {
  constexpr std::uint64_t kBatch = 64 << 10, kRounds = 3;
  SimMulticastCall call = switch_call(Collective::kAllReduce, 4 * kBatch * kRounds, kRounds);
  call.cost = {.load_ns = 900,
               .sum_ns = 2000,
               .barrier_ns = 1500,
               .batch_bytes = kBatch,
               .wire_bytes = 1e-6};
  // A round has 4 batches; a rank's share is one. There is one barrier more than rounds.
  const double wanted = kRounds * (4 * 900 + 2000 + 4 * 900) + (kRounds + 1) * 1500;
  expect_near(switch_ns(call), wanted);
  // CTAs work in parallel and share the wires.
  call.count *= 2;
  call.ctas = 2;
  expect_near(switch_ns(call), wanted);
}

// Extrapolated rounds cost the same as simulated rounds.
TEST(SimMulticast, ExtrapolatedIsSimulated) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    SimMulticastCall call = switch_call(collective, 64 << 20, 256);
    call.ctas = 4;
    call.per_round /= 4;
    call.cost = {.load_ns = 900, .sum_ns = 2000, .barrier_ns = 2000, .batch_bytes = 64 << 10};
    const auto some = simulate_multicast(switched(), call);
    ASSERT_TRUE(some.ok());
    EXPECT_TRUE(some->extrapolated) << name(collective);
    expect_near(some->ns, switch_ns(call, 256), 5e-3);
  }
}

TEST(SimMulticast, RefusesWhatNoSwitchDoes) {
  const auto other = simulate_multicast(switched(), switch_call(Collective::kBroadcast, 64, 1));
  EXPECT_THAT(other.error().text, testing::HasSubstr("no switch does")) << other.error().text;
}

}  // namespace
}  // namespace rondo::sim
