// Trees hung up at any root: spanning, along the links of the free trees, and proved by the
// checker.
#include "kernels/algorithms/hung_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/algorithms/tree.h"
#include "kernels/check/links_checker.h"

namespace rondo::check {
namespace {

TEST(HungTree, SpansAllRanksAlongTheLinksOfTheFreeTree) {
  for (int size = 2; size <= 70; ++size)
    for (int root = 0; root < size; ++root)
      for (const int tree : {0, 1})
        for (int rank = 0; rank < size; ++rank) {
          int steps = 0;
          for (int at = rank; at != root && steps <= size; ++steps) {
            const int parent = hung_double_tree(at, root, size, tree).parent;
            ASSERT_NE(parent, kNoRank);
            const TreeLinks free = double_tree(at, size, tree);
            ASSERT_TRUE(parent == free.parent || parent == free.child[0] ||
                        parent == free.child[1]);
            const HungLinks above = hung_double_tree(parent, root, size, tree);
            ASSERT_TRUE(std::find(above.child, above.child + 3, at) != above.child + 3);
            at = parent;
          }
          ASSERT_LE(steps, 12) << "rank " << rank << " of " << size << ", root " << root;
        }
}

TEST(HungTree, TakesReductionsToRankZeroAlways) {
  for (int size = 2; size <= 300; ++size) EXPECT_TRUE(hung_tree_takes(0, size)) << size;
  EXPECT_FALSE(hung_tree_takes(3, 8));
}

// (first child's + own) + second child's.
Expr sum_below(Expressions& pool, int call, std::uint64_t element, int rank, int root, int size,
               int tree) {
  const HungLinks links = hung_double_tree(rank, root, size, tree);
  Expr sum = pool.input(call, rank, element);
  if (links.child[0] != kNoRank)
    sum = pool.combine(sum_below(pool, call, element, links.child[0], root, size, tree), sum);
  if (links.child[1] != kNoRank)
    sum = pool.combine(sum, sum_below(pool, call, element, links.child[1], root, size, tree));
  return sum;
}

constexpr Rounds kRounds{25, 6, 1};

template <class Text>
std::string find_in(const Job& job, int slots, std::uint64_t seed, Text&& text) {
  Expressions pool;
  LinksChecker checker(
      pool,
      {.ranks = job.ranks, .slots = slots, .slot_elements = tree_slot(kRounds), .seed = seed});
  for (int k = 0; k < 2; ++k) checker.call(job, text);
  return checker.run().finding;
}

TEST(HungTree, IsProvedForEveryRootItTakes) {
  const auto tree_of = [](std::uint64_t element) {
    const std::uint64_t round = element / kRounds.per_round;
    return element < part_of(kRounds[round], 1, 2, kRounds.grain).begin ? 0 : 1;
  };
  for (int n = 2; n <= 9; ++n)
    for (int root = 0; root < n; ++root)
      for (const int slots : {1, 3}) {
        const Job broadcast{Collective::kBroadcast, n, root, kRounds.count, false, {}};
        EXPECT_EQ(
            find_in(broadcast, slots, 7, [&](auto& c) { hung_tree_broadcast(c, root, kRounds); }),
            "")
            << n << " ranks, root " << root;
        if (!hung_tree_takes(root, n)) continue;
        const Job reduce{Collective::kReduce,
                         n,
                         root,
                         kRounds.count,
                         slots == 1,
                         [=](Expressions& pool, int call, std::uint64_t element) {
                           return sum_below(pool, call, element, root, root, n, tree_of(element));
                         }};
        EXPECT_EQ(find_in(reduce, slots, 7, [&](auto& c) { hung_tree_reduce(c, root, kRounds); }),
                  "")
            << n << " ranks, root " << root;
      }
}

}  // namespace
}  // namespace rondo::check
