// SPDX-License-Identifier: Apache-2.0
// Whether a rank stores past its cache follows the distance of its peers: simulated cores, whose
// copies take the time that such cores were measured to need.
#include "kernels/host/store_choice.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "kernels/host/host_rank.h"

namespace rondo::host {
namespace {

struct SimClock {
  static inline std::uint64_t ticks = 0;  // three for each nanosecond
  static std::uint64_t now() { return ticks; }
  static TickReading reading() { return {ticks, static_cast<std::int64_t>(ticks / 3)}; }
  static void pass(double ns) { ticks += static_cast<std::uint64_t>(3 * ns); }
};
using Choice = BasicStoreChoice<SimClock>;

constexpr std::size_t kPiece = 64 << 10;
constexpr double kCallNs = 20'000;  // from one copy to the next

// ns per byte of a copy, through the cache and past it.
struct Cores {
  double through, past;
};
constexpr Cores kNear{0.06, 0.04}, kFar{0.19, 0.05}, kOtherSocket{0.42, 0.03};
constexpr Cores kNearFromMemory{0.15, 0.12};
constexpr Cores kBusyMemory{0.4, 0.35};  // the source is in memory that others use as well

class StoresTo : public testing::Test {
 protected:
  StoresTo() { SimClock::ticks = 12345; }

  // Copies one piece; returns whether it was stored past the cache.
  bool copy(const Cores& cores, double late_ns = 0) {
    bool went_past = false;
    int runs = 0;
    choice_.copy(kPiece, [&](bool past) {
      ++runs;
      went_past = past;
      SimClock::pass((past ? cores.past : cores.through) * kPiece + late_ns);
    });
    EXPECT_EQ(runs, 1);
    SimClock::pass(kCallNs);
    return went_past;
  }
  // Copies for that time; returns the part of the copies that went past the cache.
  double copy_for(const Cores& cores, double ms) {
    const std::uint64_t end = SimClock::ticks + static_cast<std::uint64_t>(3e6 * ms);
    int copies = 0, past = 0;
    for (; SimClock::ticks < end; ++copies) past += copy(cores);
    return static_cast<double>(past) / copies;
  }

  // Three pieces, of whose time each of `threads` that share them needs its part. The others end
  // last. How many of them went past the cache.
  int copy_shared(const Cores& cores, int threads) {
    int copies_past = 0;
    for (int i = 0; i < 3; ++i) {
      choice_.copy_shared(kPiece, [&](bool past, Choice::OwnParts& parts) {
        copies_past += past;
        const std::size_t part = kPiece / static_cast<std::size_t>(threads);
        SimClock::pass((past ? cores.past : cores.through) * static_cast<double>(part));
        parts.add(part);
        std::thread([&] { parts.add(kPiece - part); }).join();
        SimClock::pass(threads > 1 ? 1000 : 0);
      });
      SimClock::pass(kCallNs);
    }
    return copies_past;
  }

  Choice choice_;
};

TEST_F(StoresTo, APeerBeginByTheMeasuredDistance) {
  for (const double unknown_or_near : {0.0, 50.0, 99.0}) {
    choice_.start(unknown_or_near);
    EXPECT_FALSE(choice_.past(1 << 20)) << unknown_or_near;
  }
  choice_.start(240);
  EXPECT_TRUE(choice_.past(Choice::kPastFrom) && choice_.past(1 << 20));
  EXPECT_FALSE(choice_.past(Choice::kPastFrom - 1)) << "small pieces stay in the cache";
  EXPECT_EQ(choice_.exchange_ns(), 240);
}

TEST_F(StoresTo, ANearPeerStayInTheCache) {
  choice_.start(50);
  EXPECT_EQ(copy_for(kNear, 1000), 0);
}

TEST_F(StoresTo, AFarPeerGoPastAllButOneInTenMilliseconds) {
  choice_.start(240);
  const double calls_in_10_ms = 10e6 / (kCallNs + kFar.past * kPiece);
  EXPECT_GT(copy_for(kFar, 1000), 1 - 1.1 / calls_in_10_ms);
}

TEST_F(StoresTo, AnUnknownPeerBecomeFarByThreeSlowCopiesInARow) {
  choice_.start(0);
  copy_for(kNear, 2);
  for (int i = 0; i < 100; ++i) {  // two in a row: the core ran something else
    EXPECT_FALSE(copy(kNear, 4e6));
    EXPECT_FALSE(copy(kNear, 4e6));
    EXPECT_FALSE(copy(kNear));
  }
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(copy(kFar));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(copy(kFar));
}

TEST_F(StoresTo, AFarPeerStayPastItWhereThreadsShareTheCopy) {
  for (const int threads : {1, 2, 4, 8, 16}) {
    choice_ = {};
    choice_.start(240);
    copy_for(kFar, 2);
    int copies_past = 0;
    for (int i = 0; i < 1000; ++i) copies_past += copy_shared(kFar, threads);
    EXPECT_GT(copies_past, 0.99 * 3000) << threads;
  }
}

TEST_F(StoresTo, AnUnknownPeerBecomeFarWhereThreadsShareTheCopy) {
  for (const int threads : {1, 2, 4, 8, 16}) {
    choice_ = {};
    choice_.start(0);
    copy_for(kNear, 2);
    EXPECT_EQ(copy_shared(kNear, threads), 0);
    EXPECT_EQ(copy_shared(kFar, threads), 0);
    EXPECT_EQ(copy_shared(kFar, threads), 3) << threads;
  }
}

TEST_F(StoresTo, APeerAreNotTimedWhereOtherThreadsMakeTheCopy) {
  choice_.start(0);
  copy_for(kNear, 2);
  for (int i = 0; i < 10; ++i)
    choice_.copy_shared(kPiece, [&](bool past, Choice::OwnParts& parts) {
      EXPECT_FALSE(past);
      SimClock::pass(kFar.through * kPiece);
      std::thread([&] { parts.add(kPiece); }).join();
    });
  EXPECT_FALSE(choice_.past(kPiece));
}

TEST_F(StoresTo, APeerFollowItWhenItMoves) {
  const auto seed = static_cast<unsigned>(std::random_device()());
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  choice_.start(0);
  copy_for(kNear, 2);
  for (int i = 0; i < 50; ++i) {
    const bool far = random() % 2 == 0;
    const Cores& cores = !far ? kNear : random() % 2 == 0 ? kFar : kOtherSocket;
    copy_for(cores, 50);  // time to notice
    const double past = copy_for(cores, 1.0 + random() % 300);
    if (far) {
      EXPECT_GT(past, 0.9);
    } else {
      EXPECT_EQ(past, 0);
    }
  }
}

TEST_F(StoresTo, APeerStayInTheCacheWherePastItIsNoFaster) {
  choice_.start(0);
  for (const Cores& cores : {kBusyMemory, kNearFromMemory}) {
    copy_for(cores, 100);
    EXPECT_LT(copy_for(cores, 10'000), 0.005);
  }
  copy_for(kNear, 50);
  EXPECT_EQ(copy_for(kNear, 100), 0);
  copy_for(kFar, 1100);
  EXPECT_GT(copy_for(kFar, 1000), 0.9) << "far again after it was not";
}

TEST_F(StoresTo, APeerMayBeFixed) {
  for (const bool past : {false, true}) {
    choice_.fix(past);
    EXPECT_EQ(copy_for(past ? kNear : kFar, 100), past ? 1 : 0);
    EXPECT_EQ(choice_.past(Choice::kPastFrom), past);
  }
}

TEST_F(StoresTo, APeerInSmallPiecesAreNotTimed) {
  choice_.start(50);
  copy_for(kNear, 2);
  for (int i = 0; i < 100; ++i)
    choice_.copy(Choice::kTimedFrom - 1, [&](bool past) {
      EXPECT_FALSE(past);
      SimClock::pass(1e6);
    });
  EXPECT_FALSE(choice_.past(kPiece));
}

// Ranks 2, 5 and 9 of a communicator are on one host, and 9 is far.
TEST(StoresOfARank, AreChosenByTheReaderOfASlot) {
  HostRank rank;
  rank.global = {2, 5, 9};
  rank.stores_to.resize(3);
  rank.stores_to[1].start(50);
  rank.stores_to[2].start(240);
  rank.stores.start(240);
  constexpr std::size_t kSlot = 64 << 10;
  EXPECT_FALSE(rank.stores_for(5).past(kSlot));
  EXPECT_TRUE(rank.stores_for(9).past(kSlot));
  EXPECT_TRUE(rank.stores.past(kSlot)) << "for several readers, the farthest counts";
  EXPECT_EQ(&rank.stores_for(7), &rank.stores) << "on another host";
}

}  // namespace
}  // namespace rondo::host
