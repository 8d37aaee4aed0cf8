// SPDX-License-Identifier: Apache-2.0
// Simulated times against times computed by hand on uniform machines: each rank has one wire out
// and one wire in, and nothing else limits it.
#include "kernels/sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/sim/sim_links.h"
#include "tests/unit/kernels/sim/timing.h"

namespace rondo::sim {
namespace {

SimCall call_of(Algorithm algorithm, Collective collective, int ranks, std::uint64_t count,
                std::uint64_t per_round, std::uint64_t slot_bytes) {
  SimCall call;
  call.algorithm = algorithm;
  call.collective = collective;
  call.ranks = ranks;
  call.element_bytes = 1;
  SimStream stream;
  stream.order.resize(static_cast<std::size_t>(ranks));
  std::iota(stream.order.begin(), stream.order.end(), 0);
  stream.count = count;
  stream.per_round = per_round;
  stream.slot_bytes = slot_bytes;
  call.streams.push_back(stream);
  return call;
}

double ns_of(const Machine& machine, const SimCall& call, std::uint64_t rounds = 0) {
  const auto result = simulate(machine, call, {rounds});
  EXPECT_TRUE(result.ok()) << result.error().text;
  return result.ok() ? result->ns : -1;
}

// 2n - 2 steps one after the other, each with one chunk and one latency.
TEST(Simulate, RingAllReduceOfOneRoundIsItsSteps) {
  for (const int n : {2, 3, 5, 8, 16}) {
    const std::uint64_t chunk = 64 << 10;
    const std::uint64_t bytes = chunk * static_cast<std::uint64_t>(n);
    const SimCall call = call_of(Algorithm::kRing, Collective::kAllReduce, n, bytes, bytes, chunk);
    const double step = static_cast<double>(chunk) / kUniformGbs + kUniformLatency;
    expect_near(ns_of(uniform(n), call), (2 * n - 2) * step);
  }
}

// Every step includes a rank's own work if it is slower than its wires.
TEST(Simulate, WorkThatIsSlowerThanTheWiresCounts) {
  constexpr int kRanks = 4;
  const std::uint64_t chunk = 64 << 10, bytes = chunk * kRanks;
  SimCall call = call_of(Algorithm::kRing, Collective::kReduceScatter, kRanks, chunk, chunk, chunk);
  call.cost = {.fixed_ns = 100, .copy_gbs = 40, .sum_gbs = 10};
  const auto data = static_cast<double>(chunk);
  // One copy, two sums that are sent on, and one sum that stays.
  const double wanted = (100 + data / 40) + 3 * (100 + data / 10) + 3 * kUniformLatency;
  expect_near(ns_of(uniform(kRanks), call), wanted);
  // Two CTAs share the work; each line carries twice the bytes.
  call.streams[0].ctas = 2;
  call.cost.wire_bytes = 2;
  const double copy = std::max(100 + data / 80, 2 * data / kUniformGbs);
  const double sum = std::max(100 + data / 20, 2 * data / kUniformGbs);
  expect_near(ns_of(uniform(kRanks), call),
              copy + 2 * sum + (100 + data / 20) + 3 * kUniformLatency);
  EXPECT_EQ(bytes, chunk * kRanks);
}

// A long chain fills once, then runs at the speed of its wires.
TEST(Simulate, ChainIsAPipeline) {
  constexpr int kRanks = 5;
  constexpr std::uint64_t kChunk = 32 << 10, kRounds = 200;
  SimCall call =
      call_of(Algorithm::kRing, Collective::kBroadcast, kRanks, kChunk * kRounds, kChunk, kChunk);
  call.slots = 8;  // enough for a round trip
  const double chunk = kChunk / kUniformGbs;
  const double wanted = (kRanks - 1) * (chunk + kUniformLatency) + (kRounds - 1) * chunk;
  expect_near(ns_of(uniform(kRanks), call), wanted, 0.01);
}

// If credits return too late for the number of slots, the throughput is that many slots per round
// trip.
TEST(Simulate, FewSlotsOnALongWayAreTheLimit) {
  constexpr std::uint64_t kChunk = 1 << 10, kRounds = 400;
  SimCall call =
      call_of(Algorithm::kRing, Collective::kBroadcast, 2, kChunk * kRounds, kChunk, kChunk);
  call.slots = 2;
  const double round_trip = kChunk / kUniformGbs + 2 * kUniformLatency;
  expect_near(ns_of(uniform(2), call), kRounds * round_trip / 2, 0.01);
}

// Steps up and down both trees at the same time, of one chunk each.
TEST(Simulate, TreeAllReduceGoesUpAndDown) {
  constexpr std::uint64_t kHalf = 16 << 10;
  // Three ranks: each tree is a root and two leaves. Both leaves send up at once (over the root's
  // one wire, one after the other); the root sends to both.
  const SimCall call =
      call_of(Algorithm::kTree, Collective::kAllReduce, 3, 2 * kHalf, 2 * kHalf, kHalf);
  const double half = kHalf / kUniformGbs;
  const double found = ns_of(uniform(3), call);
  EXPECT_GE(found, 2 * (half + kUniformLatency) + 2 * half);
  EXPECT_LE(found, 2 * (half + kUniformLatency) + 6 * half);
}

// Depth decides the time of small calls: 2 * log2(n) steps, for any number of ranks.
TEST(Simulate, TreesAreAsDeepAsTheyAre) {
  for (const int n : {4, 8, 64, 256, 1024}) {
    const SimCall call = call_of(Algorithm::kTree, Collective::kAllReduce, n, 128, 128, 64);
    const double steps = ns_of(uniform(n), call) / (64 / kUniformGbs + kUniformLatency);
    EXPECT_GE(steps, 2 * std::log2(n) - 2) << n;
    EXPECT_LE(steps, 2 * std::log2(n) + 2) << n;
  }
}

// Each rank pushes its input to all others over its one outgoing wire, and waits only for data.
TEST(Simulate, OneShotPushesAllInputs) {
  for (const int n : {2, 3, 8}) {
    const std::uint64_t bytes = 8 << 10;
    const SimCall call = call_of(Algorithm::kOneShot, Collective::kAllReduce, n, bytes, bytes, 0);
    expect_near(ns_of(uniform(n), call),
                (n - 1) * static_cast<double>(bytes) / kUniformGbs + kUniformLatency);
  }
}

// A rank pushes a round once it has summed the previous one. With fast wires each round costs one
// latency. Pushing and receiving are each half of a job.
TEST(Simulate, PushedRoundsFollowEachOther) {
  constexpr int kRanks = 4, kRounds = 5;
  constexpr std::uint64_t kRound = 4 << 10;
  for (const auto& [algorithm, collective] :
       {std::pair{Algorithm::kOneShot, Collective::kAllReduce},
        std::pair{Algorithm::kDirect, Collective::kAllGather}}) {
    SimCall call = call_of(algorithm, collective, kRanks, kRounds * kRound, kRound, 0);
    call.cost = {.fixed_ns = 0, .copy_gbs = 20, .sum_gbs = 20, .wire_bytes = 2};
    const double work = (kRanks - 1) * static_cast<double>(kRound) / 20;
    const double way = (kRanks - 1) * 2 * static_cast<double>(kRound) / 1e6 + kUniformLatency;
    expect_near(ns_of(uniform(kRanks, 1e6), call), kRounds * (work / 2 + std::max(way, work / 2)),
                0.01);
  }
}

// Extrapolated rounds cost the same as simulated rounds.
TEST(Simulate, ExtrapolatedIsAsSimulated) {
  constexpr int kRanks = 6;
  constexpr std::uint64_t kChunk = 64 << 10, kRounds = 100;
  struct Row {
    Algorithm algorithm;
    Collective collective;
    std::uint64_t per_round;
  };
  for (const Row& row : {Row{Algorithm::kRing, Collective::kAllReduce, kChunk * kRanks},
                         Row{Algorithm::kRing, Collective::kAllGather, kChunk},
                         Row{Algorithm::kRing, Collective::kReduce, kChunk},
                         Row{Algorithm::kTree, Collective::kAllReduce, 2 * kChunk},
                         Row{Algorithm::kTree, Collective::kBroadcast, 2 * kChunk}}) {
    for (const bool by_proxy : {false, true}) {
      const std::uint64_t count = row.per_round * kRounds - kChunk / 2;
      SimCall call = call_of(row.algorithm, row.collective, kRanks, count, row.per_round, kChunk);
      call.cost = {.fixed_ns = 200, .copy_gbs = 60, .sum_gbs = 40};
      const Machine machine = uniform(kRanks, kUniformGbs, kUniformLatency, by_proxy);
      const auto short_cut = simulate(machine, call);
      ASSERT_TRUE(short_cut.ok()) << short_cut.error().text;
      EXPECT_TRUE(short_cut->extrapolated);
      expect_near(short_cut->ns, ns_of(machine, call, kRounds), 0.005);
    }
  }
}

// Two rings over shared wires take twice the time of one; over separate wires, the same time.
TEST(Simulate, RingsShareWires) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kChunk = 1 << 20;
  SimCall call = call_of(Algorithm::kRing, Collective::kAllReduce, kRanks, kChunk * kRanks,
                         kChunk * kRanks, kChunk);
  Machine machine = uniform(kRanks);
  const double alone = ns_of(machine, call);
  call.streams.push_back(call.streams[0]);
  expect_near(ns_of(machine, call), 2 * alone, 0.1);
  machine.wire_gbs.resize(4 * kRanks, kUniformGbs);
  machine.routes = [](int from, int to, int ring) {
    return Route{
        {ring * 2 * kRanks + from, ring * 2 * kRanks + kRanks + to}, kUniformLatency, false};
  };
  expect_near(ns_of(machine, call), alone);
}

// A planted wrong neighbour: a ring that crosses the slow wire between two halves several times is
// slower than one that crosses it once.
TEST(Simulate, WrongNeighbourIsSeen) {
  constexpr int kRanks = 8;
  constexpr std::uint64_t kChunk = 1 << 20;
  Machine machine = uniform(kRanks);
  machine.wire_gbs.resize(2 * kRanks + 2, kUniformGbs);  // east, west
  machine.routes = [](int from, int to, int) {
    Route route{{from, kRanks + to}, kUniformLatency, false};
    const bool crosses = (from < kRanks / 2) != (to < kRanks / 2);
    if (crosses) route.wires.insert(route.wires.begin() + 1, 2 * kRanks + (from < kRanks / 2));
    return route;
  };
  SimCall call = call_of(Algorithm::kRing, Collective::kAllReduce, kRanks, kChunk * kRanks,
                         kChunk * kRanks, kChunk);
  const double right = ns_of(machine, call);
  std::swap(call.streams[0].order[2], call.streams[0].order[6]);
  EXPECT_GT(ns_of(machine, call), 1.8 * right);
  const auto busiest = simulate(machine, call);
  EXPECT_GE(busiest->busiest_wire, 2 * kRanks);
}

// A message that waits for a slow port does not hold the wire behind it: another one passes.
TEST(Simulate, MessagesTakeEachWireWhenTheyReachIt) {
  constexpr double kSlowGbs = 1, kFastGbs = 10, kBytes = 1000;
  const Machine machine{{kSlowGbs, kFastGbs, kFastGbs}, {}};  // two ports, the wire behind both
  VirtualTime time(2);
  Traffic traffic(machine);
  SimConnection slow(time, traffic, {{0, 2}, 0, true}, 4),
      fast(time, traffic, {{1, 2}, 0, true}, 4);
  const auto send = [&](SimConnection& connection) {
    SimConnection* const to[] = {&connection};
    pass_slot(time, kBytes, 0, {}, to);
  };
  double arrived_ns = 0;
  time.spawn([&] {
    send(slow);
    send(slow);
  });
  time.spawn([&] {
    send(fast);
    fast.wait_for_message();
    arrived_ns = time.now_ns();
  });
  EXPECT_TRUE(time.run());
  // Behind the first message of the slow port only.
  expect_near(arrived_ns, 2 * kBytes / kFastGbs);
  expect_near(traffic.free_ns(2), kBytes / kSlowGbs + kBytes / kFastGbs);
}

TEST(Simulate, EqualQuestionsHaveEqualAnswers) {
  SimCall call = call_of(Algorithm::kTree, Collective::kAllReduce, 33, 1 << 20, 64 << 10, 32 << 10);
  call.cost = {.fixed_ns = 200, .copy_gbs = 60, .sum_gbs = 40};
  EXPECT_EQ(ns_of(uniform(33), call), ns_of(uniform(33), call));
}

TEST(Simulate, RefusesWhatItCannotSimulate) {
  const SimCall good = call_of(Algorithm::kRing, Collective::kAllReduce, 4, 64, 64, 16);
  SimCall views = good;
  views.algorithm = Algorithm::kHierarchical;
  EXPECT_THAT(simulate(uniform(4), views).error().text,
              testing::HasSubstr("no algorithm hierarchical"));
  SimCall pulled = good;
  pulled.algorithm = Algorithm::kTwoShot;  // a separate kernel: simulate_staged()
  EXPECT_THAT(simulate(uniform(4), pulled).error().text,
              testing::HasSubstr("no algorithm twoshot"));
  SimCall short_ring = good;
  short_ring.streams[0].order.pop_back();
  EXPECT_THAT(simulate(uniform(4), short_ring).error().text,
              testing::HasSubstr("a ring of 3 of 4 ranks"));
  SimCall crowded = good;
  crowded.algorithm = Algorithm::kTree;
  crowded.collective = Collective::kReduce;
  crowded.ranks = 8;
  crowded.streams[0].order = {0, 1, 2, 3, 4, 5, 6, 7};
  crowded.root = 3;
  EXPECT_THAT(simulate(uniform(8), crowded).error().text,
              testing::HasSubstr("rank 3 has three neighbours"));
  crowded.streams[0].tree = 0;
  EXPECT_TRUE(simulate(uniform(8), crowded).ok()) << "one tree takes any root";
  SimCall one_slot = good;
  one_slot.slots = 1;
  EXPECT_THAT(simulate(uniform(4), one_slot).error().text, testing::HasSubstr("1 slots"));
}

}  // namespace
}  // namespace rondo::sim
