// SPDX-License-Identifier: Apache-2.0
// Checks every row of the algorithm table with the checker, for up to 64 ranks: the inputs and the
// order of each sum, the place of each result, and that no access races.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <string>

#include "tests/checker/table_check.h"
#include "tests/support/seed.h"

namespace rondo {

// Prints a row for GoogleTest.
void PrintTo(const AlgorithmRow& row, std::ostream* out) {
  *out << name(row.algorithm) << " " << name(row.collective);
}

}  // namespace rondo

namespace rondo::check {
namespace {

constexpr int kMaxRanks = 64;
// Up to this number of ranks, all remainders and roots run in all modes.
constexpr int kExhaustive = 8;

bool has_blocks(Collective c) {
  return c == Collective::kAllGather || c == Collective::kReduceScatter ||
         c == Collective::kAllToAll || c == Collective::kGather || c == Collective::kScatter;
}

// Sets the properties that vary between runs of one shape: in place or not, buffers exposed or not
// (all, none, mixed between ranks), PreMulSum, the minimum number of slots or one more, both trees
// or one, rounds that grow or not.
void set_mode(const AlgorithmRow& row, int mode, Case& c) {
  c.exposures.assign(c.ranks, 0);
  c.in_place = (mode / 4) % 2 != 0;
  const bool may_expose_input = !c.in_place || row.in_place_safe;
  for (int r = 0; r < c.ranks; ++r) {
    const std::uint32_t choices[4] = {0, kExposesInput | kExposesOutput,
                                      static_cast<std::uint32_t>(r * 7 + mode) % 4,
                                      r % 2 == 0 ? 0 : kExposesInput | kExposesOutput};
    c.exposures[r] = choices[mode % 4] & ~(may_expose_input ? 0 : kExposesInput);
  }
  c.scaled = mode % 4 == 0 && (mode / 8) % 2 != 0 &&
             (row.order == Order::kTree || row.order == Order::kHostTree);
  c.slots = row.min_slots + mode % 2;
  if (row.algorithm == Algorithm::kTwoShot) c.growth = 1 + 2 * (mode / 2 % 2);
  constexpr int kTrees[4] = {kBothTrees, kBothTrees, 0, 1};
  if (row.fill == Fill::kHalves) c.tree = kTrees[(mode / 4) % 4];
}
constexpr int kModes = 16;

// Two to four hosts for a row that spans hosts: of equal size or not, in blocks or round robin.
void set_hosts(const AlgorithmRow& row, int shape, Case& c) {
  if (row.verbs != Verbs::kViews) return;
  const int hosts = std::min(c.ranks, 2 + shape % 3);
  std::vector<std::vector<int>> all(hosts);
  for (int r = 0; r < c.ranks; ++r) {
    const int block = r * hosts / c.ranks;
    const int lopsided = std::max(0, r - (c.ranks - hosts));  // one rank per host, all others on
                                                              // the first
    const int choices[3] = {block, r % hosts, lopsided};
    all[choices[shape / 3 % 3]].push_back(r);
  }
  c.hosts = all;
}

// Limit in elements up to which an exchange sends its part as a whole: never, a few, always.
std::uint64_t whole_of(int mode) {
  constexpr std::uint64_t kWholes[] = {0, 2, 9, 1 << 20};
  return kWholes[mode % std::size(kWholes)];
}

std::string label(const AlgorithmRow& row) {
  return std::string(name(row.algorithm)) + "_" + name(row.collective) +
         (row.where == Where::kGpu ? "_on_gpus" : "");
}

class EveryAlgorithm : public testing::TestWithParam<AlgorithmRow> {
 protected:
  const AlgorithmRow& row() const { return GetParam(); }
  int min_ranks() const {
    return row().verbs == Verbs::kViews ? 2 : row().min_ranks;  // two hosts
  }
  int roots(int ranks) const { return is_rooted(row().collective) ? ranks : 1; }

  // False, with a test failure that prints the case, after the first finding.
  bool passes(const Case& c) {
    const Verdict verdict = check_row(pool_, row(), c);
    EXPECT_EQ(verdict.finding, "") << describe(row(), c);
    return verdict.ok();
  }
  void forget() { pool_ = Expressions(); }

 private:
  Expressions pool_;
};

TEST_P(EveryAlgorithm, IsRightForEveryRemainderAndRootOfFewRanks) {
  int mode = 0;
  for (int n = min_ranks(); n <= kExhaustive; ++n) {
    forget();
    const std::uint64_t longest = 2 * static_cast<std::uint64_t>(n) + 1;
    for (const std::uint64_t per_round : {std::uint64_t{1}, std::uint64_t{3}, longest}) {
      for (const std::uint64_t rounds : {0, 1, 17}) {
        for (std::uint64_t rest = 0; rest < per_round; ++rest) {
          for (int root = 0; root < roots(n); ++root) {
            Case c{.ranks = n, .root = root, .count = rounds * per_round + rest};
            c.per_round = per_round;
            c.grain = 1 + rest % 2;
            c.calls = 1 + mode % 3;
            c.whole = whole_of(mode);
            set_hosts(row(), mode % 9, c);
            set_mode(row(), mode++, c);
            if (!passes(c)) return;
          }
        }
      }
    }
  }
}

TEST_P(EveryAlgorithm, IsRightInEveryMode) {
  for (int n = min_ranks(); n <= 5; ++n) {
    forget();
    for (int mode = 0; mode < kModes; ++mode) {
      for (const std::uint64_t count : {1, 5, 35}) {
        Case c{.ranks = n, .root = n - 1, .count = count, .per_round = 2, .calls = 3};
        c.whole = whole_of(mode);
        set_hosts(row(), mode % 9, c);
        set_mode(row(), mode, c);
        if (!passes(c)) return;
      }
    }
  }
}

TEST_P(EveryAlgorithm, IsRightForEveryRootOfUpTo64Ranks) {
  for (int n = kExhaustive + 1; n <= kMaxRanks; ++n) {
    forget();
    const int trials = std::max(roots(n), 4);
    for (int trial = 0; trial < trials; ++trial) {
      Case c{.ranks = n, .root = trial % n};
      const int shape = (trial + n) % 3;
      // Many rounds, rounds with uneven parts, one round with a remainder.
      c.per_round = shape == 0 ? 1 : shape == 1 ? 3 : has_blocks(row().collective) ? 2 : n + 1;
      const std::uint64_t rounds = shape == 0 ? 17 : shape == 1 ? 5 : 1;
      c.count = rounds * c.per_round + (7 * trial + n) % c.per_round;
      c.whole = whole_of(trial + n);
      set_hosts(row(), (trial + n) % 9, c);
      set_mode(row(), trial + n, c);
      if (!passes(c)) return;
    }
  }
}

TEST_P(EveryAlgorithm, IsRightInThousandsOfSchedules) {
  const std::uint64_t first = test_seed();
  for (std::uint64_t k = 0; k < 1000; ++k) {
    const std::uint64_t seed = first + k;
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t below) { return random() % below; };
    Case c{.ranks = min_ranks() + static_cast<int>(draw(kExhaustive - min_ranks() + 1))};
    c.root = static_cast<int>(draw(c.ranks));
    c.per_round = 1 + draw(2 * c.ranks);
    c.count = draw(12 * c.per_round);
    if (has_blocks(row().collective)) c.count = draw(24);
    c.grain = 1 + draw(3);
    c.whole = draw(2) * draw(c.count + 2);
    c.calls = 1 + static_cast<int>(draw(3));
    c.seed = seed;
    set_hosts(row(), static_cast<int>(draw(9)), c);
    set_mode(row(), static_cast<int>(draw(kModes)), c);
    if (row().any_order && draw(2) != 0) {
      for (int r = 0; r < c.ranks; ++r) c.ring.push_back(r);
      std::shuffle(c.ring.begin(), c.ring.end(), random);
    }
    SCOPED_TRACE("reproduce with RONDO_TEST_SEED=" + std::to_string(seed));
    if (!passes(c)) return;
  }
}

// Reproducible mode depends on this: the host tree equals the tree over ranks if hosts hold aligned
// blocks of ranks of one power-of-two size (the last block may be smaller).
TEST(HostTreeOrder, IsTheTreeOverRanksForAlignedHosts) {
  for (const int block : {1, 2, 4, 8}) {
    for (int n = 1; n <= kMaxRanks; ++n) {
      std::vector<std::vector<int>> hosts((n + block - 1) / block);
      for (int r = 0; r < n; ++r) hosts[r / block].push_back(r);
      Expressions pool;
      EXPECT_EQ(host_tree_order(hosts)(pool, 0, 3), tree_order(n)(pool, 0, 3))
          << n << " ranks, " << block << " a host";
    }
  }
  Expressions pool;
  EXPECT_NE(host_tree_order({{0, 2}, {1, 3}})(pool, 0, 0), tree_order(4)(pool, 0, 0));
  EXPECT_NE(host_tree_order({{0, 1, 2}, {3, 4, 5}})(pool, 0, 0), tree_order(6)(pool, 0, 0));
}

// The condition of a row is not only safe but necessary: without it the checker finds a deadlock.
TEST(AlgorithmTable, RowsThatAskForTwoSlotsDeadlockWithOne) {
  for (const AlgorithmRow& row : kAlgorithms) {
    if (row.min_slots < 2) continue;
    Case c{.ranks = 4, .count = 12, .per_round = 4, .slots = row.min_slots - 1};
    set_hosts(row, 2, c);
    Expressions pool;
    EXPECT_THAT(check_row(pool, row, c).finding, testing::HasSubstr("deadlock"))
        << label(row) << " asks for " << row.min_slots << " slots and needs fewer: lower min_slots";
  }
}

TEST(AlgorithmTable, RowsThatAreUnsafeInPlaceRaceThere) {
  for (const AlgorithmRow& row : kAlgorithms) {
    if (row.in_place_safe) continue;
    Case c{.ranks = 3, .count = 12, .per_round = 4, .in_place = true};
    c.exposures.assign(c.ranks, kExposesInput | kExposesOutput);
    Expressions pool;
    EXPECT_THAT(check_row(pool, row, c).finding, testing::HasSubstr("no signal orders"))
        << label(row) << " is safe in place: leave in_place_safe at its default";
  }
}

INSTANTIATE_TEST_SUITE_P(Checker, EveryAlgorithm, testing::ValuesIn(kAlgorithms),
                         [](const auto& info) { return label(info.param); });

// Calls of different collectives follow each other on one communicator. Staging slots, steps and
// run-ahead carry over from one call to the next.
TEST(CheckerMixedCalls, LeaveNothingBehindThatHurtsTheNextCall) {
  const std::uint64_t first = test_seed();
  for (std::uint64_t seed = first; seed < first + 1500; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t below) { return random() % below; };
    const int n = 1 + static_cast<int>(draw(6));
    Expressions pool;
    PeerMemoryChecker checker(
        pool, {.ranks = n, .slot_elements = 4u * static_cast<unsigned>(n), .seed = seed});
    std::string calls;
    for (int k = 0; k < 5; ++k) {
      const AlgorithmRow& row = kAlgorithms[draw(std::size(kAlgorithms))];
      if (row.verbs != Verbs::kPeerMemory) continue;
      Case c{.ranks = n, .count = draw(20), .per_round = 1 + draw(4)};
      set_mode(row, static_cast<int>(draw(kModes)), c);
      const int root = static_cast<int>(draw(n));
      ASSERT_TRUE(add_call(checker, row, c, root));
      c.root = root;
      calls += describe(row, c) + "\n";
    }
    ASSERT_EQ(checker.run().finding, "") << "reproduce with RONDO_TEST_SEED=" << seed << "\n"
                                         << calls;
  }
}

TEST(CheckerMixedCalls, OverConnectionsStayApart) {
  const std::uint64_t first = test_seed();
  for (std::uint64_t seed = first; seed < first + 500; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t below) { return random() % below; };
    const int n = 2 + static_cast<int>(draw(6));
    Expressions pool;
    LinksChecker checker(
        pool,
        {.ranks = n, .slots = 3 + static_cast<int>(draw(2)), .slot_elements = 8, .seed = seed});
    std::string calls;
    for (int k = 0; k < 6; ++k) {
      const AlgorithmRow& row = kAlgorithms[draw(std::size(kAlgorithms))];
      if (row.verbs != Verbs::kPrimitives) continue;
      Case c{.ranks = n, .count = draw(40), .per_round = 1 + draw(8)};
      set_mode(row, static_cast<int>(draw(kModes)), c);
      if (row.roots == Roots::kAny) c.root = static_cast<int>(draw(n));
      ASSERT_TRUE(add_call(checker, row, c, c.root));
      calls += describe(row, c) + "\n";
    }
    ASSERT_EQ(checker.run().finding, "") << "reproduce with RONDO_TEST_SEED=" << seed << "\n"
                                         << calls;
  }
}

}  // namespace
}  // namespace rondo::check
