// SPDX-License-Identifier: Apache-2.0
// The exchange of a cache line between ranks: every pair once, whatever the others do.
#include "kernels/host/core_distance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "collectives/rank/fiber_group.h"

namespace rondo::host {
namespace {

// Ranks as fibers of one thread, which take turns: each load takes 10 ns and ends a turn.
struct InTurn : HostAtomics {
  static inline std::int64_t time = 0;

  static std::int64_t now() { return time; }
  static std::uint64_t load_acquire(const std::uint64_t& word) {
    time += 10;
    FiberGroup::current()->suspend(true);
    return HostAtomics::load_acquire(word);
  }
};

class Distances : public testing::Test {
 protected:
  // The lines of that many ranks, as they are at init.
  void begin(int ranks) {
    lines_.assign(static_cast<std::size_t>(ranks), StepLine{});
    ports_.assign(static_cast<std::size_t>(ranks), PeerPort{});
    for (std::size_t r = 0; r < lines_.size(); ++r) ports_[r].steps = &lines_[r];
  }
  // Only the first ranks measure. The largest distance that each of them found.
  std::vector<double> measure(int ranks, int present) {
    begin(ranks);
    std::vector<double> found(static_cast<std::size_t>(present), -1);
    std::vector<std::thread> threads;
    for (int r = 0; r < present; ++r)
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

// Each begins 50 us after the one before.
TEST_F(Distances, OfAllWhoArePresentAreFoundInTimeIfOneIsAbsent) {
  constexpr std::int64_t kSkew = 50'000;
  for (const int ranks : {2, 3, 4, 5, 8})
    for (int absent = 0; absent < ranks; ++absent) {
      SCOPED_TRACE(testing::Message() << absent << " of " << ranks);
      begin(ranks);
      const std::int64_t begun = InTurn::time;
      std::vector<std::vector<double>> found(ports_.size());
      std::vector<std::int64_t> took(ports_.size());
      std::uint8_t parked = 0;
      std::uint32_t bell = 0;
      std::vector<FiberGroup::Task> tasks;
      for (int r = 0; r < ranks; ++r) {
        const auto measure = [&, r] {
          const std::int64_t start = begun + r * kSkew;
          while (InTurn::now() < start) InTurn::load_acquire(lines_[0].step);
          found[static_cast<std::size_t>(r)] = CoreDistance<InTurn>(ports_, r).to_all();
          took[static_cast<std::size_t>(r)] = InTurn::now() - start;
        };
        if (r != absent) tasks.push_back({measure, &parked, &bell});
      }
      FiberGroup::run(tasks);
      for (int r = 0; r < ranks; ++r)
        for (int peer = 0; peer < ranks && r != absent; ++peer)
          EXPECT_EQ(found[r][peer] > 0, peer != r && peer != absent) << r << " to " << peer;
      const int rounds = ranks + ranks % 2 - 1, from_look_to_look = 64 * 10 * ranks;
      const std::int64_t longest =
          2 * CoreDistance<>::kLongest + rounds * CoreDistance<>::kLongestPair + from_look_to_look;
      for (const std::int64_t ns : took) EXPECT_LE(ns, longest);
    }
}

TEST_F(Distances, EndIfRanksAreAbsent) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (int present = 1; present <= ranks; ++present)
      for (const double ns : measure(ranks, present)) EXPECT_GE(ns, 0) << ranks << ", " << present;
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
