// SPDX-License-Identifier: Apache-2.0
// Proves the order of sums over leaves on expressions: 64 leaves, cut among 1 to 64 ranks, evenly
// and at random, in any order of the ranks. Host and GPUs sum by the same LeafFold.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "collectives/planner/leaf_layout.h"
#include "kernels/leaf_fold.h"
#include "tests/checker/expressions.h"
#include "tests/support/seed.h"

namespace rondo::check {
namespace {

// What LeafFold combines here. Sums that no value completes: the written ones, then those that
// wait.
class SymbolicHalves {
 public:
  explicit SymbolicHalves(Expressions& pool) : pool_(pool) {}

  void add(Expr value, std::uint32_t leaf, int level) { order_.add(*this, value, leaf, level); }
  std::vector<Expr> sums() const {
    std::vector<Expr> all = written_;
    for (auto half = waiting_.rbegin(); half != waiting_.rend(); ++half)
      all.push_back(half->second);
    return all;
  }

  void keep(int level, Expr value) {
    EXPECT_TRUE(waiting_.emplace(level, value).second) << "a half is lost at level " << level;
  }
  Expr combine(std::uint32_t /*leaf*/, int level, Expr right) {
    const Expr left = waiting_.at(level);
    waiting_.erase(level);
    return pool_.combine(left, right);
  }
  void write(Expr value) { written_.push_back(value); }

 private:
  Expressions& pool_;
  LeafFold order_;
  std::map<int, Expr> waiting_;
  std::vector<Expr> written_;
};

class LeafFoldOrder : public testing::Test {
 protected:
  static constexpr std::uint32_t kLeaves = 64, kRanks = 64;

  Expr leaf(std::uint32_t number) { return pool_.input(0, static_cast<int>(number), 0); }
  Expr tree_of(LeafRun run) {
    std::vector<Expr> leaves;
    for (std::uint32_t l = run.first; l < run.end(); ++l) leaves.push_back(leaf(l));
    return balanced_tree(pool_, leaves);
  }

  // A rank sums its leaves; then somebody combines what all ranks have.
  void check(const std::vector<LeafRun>& runs) {
    LeafLayout layout;
    ASSERT_TRUE(layout.set(runs, kLeaves).ok());
    SymbolicHalves all(pool_);
    std::vector<Expr> by_rank;
    for (const int rank : layout.order()) {
      const LeafRun run = layout.run_of(rank);
      SymbolicHalves own(pool_);
      for (std::uint32_t l = run.first; l < run.end(); ++l) own.add(leaf(l), l, 0);
      const std::vector<Expr> sums = own.sums();
      const auto subtrees = layout.subtrees_of(rank);
      ASSERT_EQ(sums.size(), subtrees.size());
      ASSERT_LE(sums.size(), 2u * std::bit_width(run.n));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        ASSERT_EQ(pool_.text(sums[i]), pool_.text(tree_of(subtrees[i])));
        ASSERT_EQ(subtree_level(subtrees[i].first, run.end()), std::countr_zero(subtrees[i].n));
        all.add(sums[i], subtrees[i].first, std::countr_zero(subtrees[i].n));
      }
      by_rank.push_back(sums.front());
    }
    ASSERT_EQ(all.sums().size(), 1u);
    ASSERT_EQ(pool_.text(all.sums().front()), pool_.text(tree_of({0, kLeaves})));
    // What plain calls in tree order do with one sum a rank.
    if (layout.along_ranks()) {
      ASSERT_EQ(balanced_tree(pool_, by_rank), all.sums().front());
    }
  }

  Expressions pool_;
};

TEST_F(LeafFoldOrder, OfEvenShares) {
  for (std::uint32_t n = 1; n <= kRanks; ++n) {
    std::vector<LeafRun> runs;
    std::uint32_t at = 0;
    for (std::uint32_t r = 0; r < n; ++r, at = runs.back().end())
      runs.push_back({at, kLeaves / n + (r < kLeaves % n ? 1 : 0)});
    ASSERT_NO_FATAL_FAILURE(check(runs)) << n << " ranks";
  }
}

TEST_F(LeafFoldOrder, OfEveryCutInTwo) {
  for (std::uint32_t first = 0; first <= kLeaves; ++first)
    ASSERT_NO_FATAL_FAILURE(check({{first, kLeaves - first}, {0, first}})) << "cut at " << first;
}

TEST_F(LeafFoldOrder, OfRandomRunsOfRanksInAnyOrder) {
  const TestSeed seed;
  std::mt19937_64 random(seed.value);
  for (std::uint32_t n = 1; n <= kRanks; ++n) {
    for (int round = 0; round < 20; ++round) {
      std::vector<std::uint32_t> cuts{0, kLeaves};
      for (std::uint32_t r = 1; r < n; ++r)
        cuts.push_back(static_cast<std::uint32_t>(random() % (kLeaves + 1)));
      std::sort(cuts.begin(), cuts.end());
      std::vector<int> place(n);
      std::iota(place.begin(), place.end(), 0);
      std::shuffle(place.begin(), place.end(), random);
      std::vector<LeafRun> runs(place.size());
      for (std::size_t i = 0; i < place.size(); ++i)
        runs[static_cast<std::size_t>(place[i])] = {cuts[i], cuts[i + 1] - cuts[i]};
      ASSERT_NO_FATAL_FAILURE(check(runs)) << n << " ranks, round " << round;
    }
  }
}

}  // namespace
}  // namespace rondo::check
