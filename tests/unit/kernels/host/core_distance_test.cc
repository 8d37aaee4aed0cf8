// SPDX-License-Identifier: Apache-2.0
// The exchange of a cache line between ranks: every pair once, whatever the others do.
#include "kernels/host/core_distance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

namespace rondo::host {
namespace {

class Distances : public testing::Test {
 protected:
  // The lines of that many ranks, as they are at init.
  void begin(int ranks) {
    lines_.assign(static_cast<std::size_t>(ranks), StepLine{});
    ports_.assign(static_cast<std::size_t>(ranks), PeerPort{});
    for (std::size_t r = 0; r < lines_.size(); ++r) ports_[r].steps = &lines_[r];
  }
  // Ranks `absent` and above do not measure. The distance that each of the others found.
  std::vector<double> measure(int ranks, int absent) {
    begin(ranks);
    std::vector<double> found(static_cast<std::size_t>(absent), -1);
    std::vector<std::thread> threads;
    for (int r = 0; r < absent; ++r)
      threads.emplace_back([this, r, &found] {
        found[static_cast<std::size_t>(r)] = CoreDistance<>(ports_, r).farthest();
      });
    for (std::thread& thread : threads) thread.join();
    return found;
  }

  std::vector<StepLine> lines_;
  std::vector<PeerPort> ports_;
};

TEST_F(Distances, HaveEveryPairOnceInARound) {
  for (int players = 2; players <= 66; players += 2)
    for (int player = 0; player < players; ++player) {
      std::set<int> partners;
      for (int round = 0; round < players - 1; ++round) {
        const int other = CoreDistance<>::partner(player, round, players);
        ASSERT_NE(other, player) << players;
        ASSERT_EQ(CoreDistance<>::partner(other, round, players), player) << players;
        partners.insert(other);
      }
      ASSERT_EQ(std::ssize(partners), players - 1);
    }
}

// Threads that do not run at the same time find nothing; then the next try counts.
TEST_F(Distances, AreFoundBetweenTwo) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  std::vector<double> found = measure(2, 2);
  while ((found[0] == 0 || found[1] == 0) && std::chrono::steady_clock::now() < end)
    found = measure(2, 2);
  for (const double ns : found) {
    EXPECT_GT(ns, 1);
    EXPECT_LT(ns, 1e6);
  }
}

TEST_F(Distances, EndIfRanksAreAbsent) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (int absent = 1; absent <= ranks; ++absent)
      for (const double ns : measure(ranks, absent)) EXPECT_GE(ns, 0) << ranks << ", " << absent;
  EXPECT_EQ(measure(1, 1), std::vector<double>{0});
  EXPECT_EQ(measure(2, 1), std::vector<double>{0}) << "nobody answered";
}

TEST_F(Distances, AreNotTakenFromEchoesOfOtherPairs) {
  begin(3);
  for (const std::uint64_t later : {std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    lines_[1].echo = lines_[2].echo = later;  // they have gone on
    EXPECT_EQ(CoreDistance<>(ports_, 0).farthest(), 0);
  }
}

}  // namespace
}  // namespace rondo::host
