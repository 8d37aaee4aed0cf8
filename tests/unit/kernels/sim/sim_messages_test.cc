// SPDX-License-Identifier: Apache-2.0
// Simulated point-to-point messages against times computed by hand. Each rank has one wire out and
// one wire in.
#include "kernels/sim/sim_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/kernels/sim/timing.h"

namespace rondo::sim {
namespace {

constexpr std::uint64_t kSlot = 64 << 10;

// Each rank sends to the next `to` ranks and receives from the previous `to`, each on its own CTA.
SimMessageCall to_next_ones(int ranks, int to, std::uint64_t bytes) {
  SimMessageCall call;
  for (int rank = 0; rank < ranks; ++rank) {
    SimMessageLaunch launch;
    for (int k = 1; k <= to; ++k) {
      launch.ctas.push_back({{(rank + k) % ranks, true, 0, bytes, kSlot}});
      launch.ctas.push_back({{(rank + ranks - k) % ranks, false, 0, bytes, kSlot}});
    }
    call.launches.push_back({launch});
  }
  return call;
}

double messages_ns(const Machine& machine, const SimMessageCall& call) {
  const auto result = simulate_messages(machine, call);
  EXPECT_TRUE(result.ok()) << result.error().text;
  return result.ok() ? result->ns : -1;
}

// With wires as the only cost: the time of all bytes one after the other, plus one latency. Where
// several messages share a wire, it may wait for one whose next wire is busy.
TEST(SimMessages, TakeTheTimeOfTheirBytesOnTheWires) {
  constexpr std::uint64_t kBytes = 40 * kSlot;
  for (const int n : {2, 3, 8}) {
    const auto wire = static_cast<double>(kBytes) / kUniformGbs;
    expect_near(messages_ns(uniform(n), to_next_ones(n, 1, kBytes)), wire + kUniformLatency);
    const double all = (n - 1) * wire + kUniformLatency;
    const double found = messages_ns(uniform(n), to_next_ones(n, n - 1, kBytes));
    EXPECT_GE(found, all * (1 - 1e-9));
    EXPECT_LE(found, all * 1.03);
  }
}

// A CTA slower than the wire: the time of its slots, then the receiver's last one.
TEST(SimMessages, WaitForTheirCtas) {
  constexpr int kSlots = 5;
  SimMessageCall call = to_next_ones(2, 1, kSlots * kSlot);
  call.cost = {.fixed_ns = 100, .copy_gbs = 20};
  const double slot = 100 + static_cast<double>(kSlot) / 20;
  expect_near(messages_ns(uniform(2), call), (kSlots + 1) * slot + kUniformLatency);
}

// With one slot, each message waits until the previous one is read and the sender knows that.
TEST(SimMessages, WaitForFreeSlots) {
  constexpr int kTimes = 6;
  SimMessageCall call = to_next_ones(2, 1, kTimes * kSlot);
  call.slots = 1;
  const double wire = static_cast<double>(kSlot) / kUniformGbs;
  expect_near(messages_ns(uniform(2), call),
              kTimes * (wire + kUniformLatency) + (kTimes - 1) * kUniformLatency);
}

// Launches of one rank run one after the other; two CTAs do at once what one CTA does in two steps.
TEST(SimMessages, FollowEachOtherInLaunchesAndOnCtas) {
  const auto copies = [](int rank, std::size_t on_each, std::size_t ctas) {
    const SimMessage copy{rank, false, 0, kSlot, 0};
    return SimMessageLaunch{{ctas, std::vector<SimMessage>(on_each, copy)}};
  };
  const double each = static_cast<double>(kSlot) / 10;
  const auto ns = [&](const std::vector<SimMessageLaunch>& of_rank_0) {
    SimMessageCall call;
    call.cost = {.fixed_ns = 0, .copy_gbs = 10};
    call.next_launch_ns = 2000;
    call.launches = {of_rank_0, {copies(1, 1, 1)}};
    return messages_ns(uniform(2), call);
  };
  expect_near(ns({copies(0, 2, 1)}), 2 * each);
  expect_near(ns({copies(0, 1, 2)}), each);
  expect_near(ns({copies(0, 1, 1), copies(0, 1, 1)}), 2 * each + 2000);
}

// Messages for a late rank do not delay a CTA's messages for other ranks, within the window.
TEST(SimMessages, PassThoseOfALateRankWithinTheWindow) {
  constexpr std::uint64_t kTimes = 20;
  const auto ns = [](int window) {
    SimMessageCall call;
    call.cost = {.fixed_ns = 0, .copy_gbs = 2 * kUniformGbs};
    call.window = window;
    const auto message = [](int peer, bool sends) {
      return SimMessage{peer, sends, 0, kTimes * kSlot, kSlot};
    };
    const SimMessage copy{1, false, 0, 1000 * kSlot, 0};
    call.launches = {{{{{message(1, true), message(2, true)}}}},
                     {{{{copy, message(0, false)}}}},
                     {{{{message(0, false)}}}}};
    return messages_ns(uniform(3), call);
  };
  const double wires = static_cast<double>(kTimes * kSlot) / kUniformGbs;
  EXPECT_GT(ns(1) - ns(2), 0.95 * wires);
  expect_near(ns(2), ns(16));
}

// A planted fault: the simulation reports a message that no rank receives, and a receive that no
// rank sends to.
TEST(SimMessages, SeeWhatNobodyReceives) {
  SimMessageCall call = to_next_ones(3, 1, kSlot);
  call.launches[1][0].ctas.pop_back();
  const auto lost = simulate_messages(uniform(3), call);
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().text, testing::HasSubstr("still wait")) << lost.error().text;
  call = to_next_ones(3, 1, kSlot);
  call.launches[2][0].ctas[1][0].peer = 0;
  EXPECT_FALSE(simulate_messages(uniform(3), call).ok());
}

TEST(SimMessages, RefuseWhatCannotBeSimulated) {
  SimMessageCall call = to_next_ones(2, 1, kSlot);
  call.slots = 9;
  EXPECT_THAT(simulate_messages(uniform(2), call).error().text, testing::HasSubstr("9 slots"));
  call.window = 0;
  call.slots = 8;
  EXPECT_THAT(simulate_messages(uniform(2), call).error().text, testing::HasSubstr("0 messages"));
  call.launches.resize(1);
  EXPECT_THAT(simulate_messages(uniform(2), call).error().text, testing::HasSubstr("1 ranks"));
}

}  // namespace
}  // namespace rondo::sim
