// SPDX-License-Identifier: Apache-2.0
// Simulated host-memory collectives against times computed by hand.
#include "kernels/sim/simulate_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/kernels/sim/timing.h"

namespace rondo::sim {
namespace {

constexpr HostVerbCost kCost{
    .call = 70, .meet = 40, .peer = 6, .spin = 300, .yield = 1700, .copy = 0.02, .sum = 0.03};

SimHostCall host_call(Algorithm algorithm, Collective collective, int ranks, int cores,
                      std::uint64_t bytes, std::uint64_t per_round = 0) {
  SimHostCall call;
  call.algorithm = algorithm;
  call.collective = collective;
  call.ranks = ranks;
  call.cores = cores;
  call.rounds = {bytes, per_round == 0 ? bytes : per_round, 1};
  call.element_bytes = 1;
  call.cost = kCost;
  return call;
}

double host_ns(const SimHostCall& call, const HostLimits& limits = {}) {
  const auto result = simulate_host(call, limits);
  EXPECT_TRUE(result.ok()) << result.error().text;
  return result.ok() ? result->ns : -1;
}

// One core per rank: all announce at once, see each other, read one line of each peer, and add.
TEST(SimulateHost, OneShotOnACoreEachIsAMeetingAndTheSums) {
  for (const int n : {2, 3, 4, 8, 64}) {
    SimHostCall call = host_call(Algorithm::kOneShot, Collective::kAllReduce, n, n, 256);
    call.place = HostPath::kLines;
    const double wanted = 70 + 256 * 0.02 + 40 + (n - 1) * 6 + (n - 1) * 256 * 0.03;
    expect_near(host_ns(call, {.calls = 1}), wanted);
    expect_near(host_ns(call), wanted);  // no rank runs ahead, so all take this long
  }
}

// Two ranks on one core: the second finds the first one's data, and the core switches back once.
TEST(SimulateHost, TwoRanksOnOneCoreGiveItToEachOther) {
  SimHostCall call = host_call(Algorithm::kOneShot, Collective::kAllReduce, 2, 1, 64);
  call.place = HostPath::kLines;
  const double own = 70 + 64 * 0.02, rest = 6 + 64 * 0.03;
  // Announce; spin, yield; announce and end; yield without spinning; end.
  expect_near(host_ns(call, {.calls = 1}), own + 2000 + own + rest + 1700 + rest);
  // In a sequence of calls, a rank that has finished announces the next call: one turn per call.
  expect_near(host_ns(call), 2 * (own + rest) + 2000);
}

// N ranks on a core take N - 1 turns per barrier and do their work one after the other.
TEST(SimulateHost, EachRankMoreOnACoreIsATurnMore) {
  for (const int share : {2, 3, 4, 8}) {
    SimHostCall call = host_call(Algorithm::kOneShot, Collective::kAllReduce, share, 1, 64);
    call.place = HostPath::kLines;
    const double each = 70 + 64 * 0.02 + (share - 1) * (6 + 64 * 0.03);
    expect_near(host_ns(call), share * each + (share - 1) * 2000);
  }
}

// Every rank copies the data that peers read, passes two barriers, reduces its part and fetches the
// others.
TEST(SimulateHost, TwoShotByStagingIsTwoMeetingsAndItsBytes) {
  for (const int n : {2, 4, 8}) {
    const std::uint64_t bytes = 1 << 16;
    SimHostCall call = host_call(Algorithm::kTwoShot, Collective::kAllReduce, n, n, bytes);
    const double others = static_cast<double>(bytes) * (n - 1) / n, part = bytes - others;
    expect_near(host_ns(call),
                70 + 2 * (40 + (n - 1) * 6) + (2 * others + part) * 0.02 + others * 0.03);
    // In place, the results are written to all ranks; the last barrier also ends all reading.
    call.place = HostPath::kBuffers;
    expect_near(host_ns(call), 70 + 2 * (40 + (n - 1) * 6) + others * 0.02 + others * 0.03);
  }
}

// A rank gets its exposed buffers back once all peers have read them.
TEST(SimulateHost, BuffersInPlaceAreOneMeetingMoreAndACopyLess) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kBytes = 1 << 16;
  SimHostCall call = host_call(Algorithm::kDirect, Collective::kAllGather, kRanks, kRanks, kBytes);
  const double meeting = 40 + (kRanks - 1) * 6, copy = kBytes * 0.02;
  const double first = host_ns(call, {.calls = 1});
  expect_near(first, 70 + copy + meeting + kRanks * copy - 40);  // seen while it copies its own
  call.place = HostPath::kBuffers;
  expect_near(host_ns(call, {.calls = 1}), first - copy + meeting);
}

// The root does not wait for its readers: a sequence of calls takes the time of the slower side.
TEST(SimulateHost, ARootRunsAheadOfItsReaders) {
  SimHostCall call = host_call(Algorithm::kDirect, Collective::kBroadcast, 2, 2, 64);
  call.place = HostPath::kLines;
  const double reader = 70 + 6 + 64 * 0.02;
  expect_near(host_ns(call), reader + 6.0 / 63, 0.02);
  EXPECT_GT(host_ns(call, {.calls = 1}), reader + 40);
  // With alternating roots, no root can run ahead.
  call.roots_in_turn = true;
  EXPECT_GT(host_ns(call), 1.2 * reader);
}

// A root runs ahead until its announcements are full. On one core it then yields the core.
TEST(SimulateHost, ARootRunsAheadAsFarAsAnnouncementsGo) {
  SimHostCall call = host_call(Algorithm::kDirect, Collective::kBroadcast, 2, 1, 64);
  call.place = HostPath::kLines;
  const double root = 70 + 64 * 0.02, reader = root + 6;
  expect_near(host_ns(call), root + reader + 2 * 2000.0 / (kAnnounceDepth - 1), 0.02);
}

// Or until it has used all parts of its slots.
TEST(SimulateHost, ARootRunsAheadAsFarAsPartsOfSlotsGo) {
  SimHostCall call = host_call(Algorithm::kDirect, Collective::kBroadcast, 2, 1, 1024);
  const double whole = host_ns(call);
  call.slot_parts = 4;
  const double switches = 2 * 2000.0;
  expect_near(whole - host_ns(call), switches / kStagingSlots - switches / (4 * kStagingSlots),
              0.05);
}

TEST(SimulateHost, ExtrapolatedIsWhatAllRoundsTake) {
  for (const auto& [algorithm, collective] :
       {std::pair{Algorithm::kOneShot, Collective::kAllReduce},
        {Algorithm::kTwoShot, Collective::kAllReduce},
        {Algorithm::kDirect, Collective::kReduce},
        {Algorithm::kOneShot, Collective::kReduce},
        {Algorithm::kDirect, Collective::kBroadcast},
        {Algorithm::kDirect, Collective::kAllGather},
        {Algorithm::kDirect, Collective::kReduceScatter},
        {Algorithm::kDirect, Collective::kAllToAll},
        {Algorithm::kDirect, Collective::kGather},
        {Algorithm::kDirect, Collective::kScatter}})
    for (const int cores : {1, 2, 3, 4}) {
      const SimHostCall call =
          host_call(algorithm, collective, 4, cores, (std::uint64_t{200} << 12) + 99, 1 << 12);
      const auto drawn = simulate_host(call);
      ASSERT_TRUE(drawn.ok()) << drawn.error().text;
      // Roots run ahead by some rounds, and the time may become steady too late to extrapolate.
      EXPECT_TRUE(drawn->extrapolated || is_rooted(collective)) << name(collective) << cores;
      expect_near(drawn->ns, host_ns(call, {.rounds = 1000}), is_rooted(collective) ? 0.02 : 0.005);
    }
}

// Fails if an algorithm leaves a rank waiting, also with uneven shares.
TEST(SimulateHost, EveryRankEndsWhereverRanksStand) {
  for (const AlgorithmRow& row : kAlgorithms) {
    if (row.verbs != Verbs::kPeerMemory || !row.runs(Where::kHost)) continue;
    for (const int ranks : {2, 3, 5, 16})
      for (const int cores : {1, 2, 3, 16})
        for (const HostPath place : {HostPath::kLines, HostPath::kStaging, HostPath::kBuffers}) {
          if (place == HostPath::kLines && !row.fits_lines) continue;
          for (const bool turns : {false, true}) {
            SimHostCall call = host_call(row.algorithm, row.collective, ranks, cores, 96,
                                         place == HostPath::kLines ? 96 : 40);
            call.place = place;
            call.roots_in_turn = turns;
            EXPECT_GT(host_ns(call), 70) << name(row.algorithm) << ' ' << name(row.collective);
          }
        }
  }
}

TEST(SimulateHost, NamesWhatItCannotSimulate) {
  const auto text = [](const SimHostCall& call) { return simulate_host(call).error().text; };
  EXPECT_THAT(text(host_call(Algorithm::kRing, Collective::kAllReduce, 4, 4, 64)),
              testing::HasSubstr("ring"));
  EXPECT_THAT(text(host_call(Algorithm::kOneShot, Collective::kAllReduce, 1, 4, 64)),
              testing::HasSubstr("1 ranks"));
  EXPECT_THAT(text(host_call(Algorithm::kOneShot, Collective::kAllReduce, 4, 0, 64)),
              testing::HasSubstr("0 cores"));
  SimHostCall lines = host_call(Algorithm::kTwoShot, Collective::kAllReduce, 4, 4, 64);
  lines.place = HostPath::kLines;
  EXPECT_THAT(text(lines), testing::HasSubstr("by lines"));
  SimHostCall root = host_call(Algorithm::kDirect, Collective::kBroadcast, 4, 4, 64);
  root.root = 4;
  EXPECT_THAT(text(root), testing::HasSubstr("root 4"));
}

}  // namespace
}  // namespace rondo::sim
