// SPDX-License-Identifier: Apache-2.0
// Trees rerooted at any rank span all ranks and use only links of the free trees.
// table_check_test.cc proves their algorithms.
#include "kernels/algorithms/rerooted_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rondo {
namespace {

TEST(RerootedTree, SpansAllRanksAlongTheLinksOfTheFreeTree) {
  for (int size = 2; size <= 70; ++size)
    for (int root = 0; root < size; ++root)
      for (const int tree : {0, 1})
        for (int rank = 0; rank < size; ++rank) {
          int steps = 0;
          for (int at = rank; at != root && steps <= size; ++steps) {
            const int parent = rerooted_double_tree(at, root, size, tree).parent;
            ASSERT_NE(parent, kNoRank);
            const TreeLinks free = double_tree(at, size, tree);
            ASSERT_TRUE(parent == free.parent || parent == free.child[0] ||
                        parent == free.child[1]);
            const RerootedLinks above = rerooted_double_tree(parent, root, size, tree);
            ASSERT_TRUE(std::find(above.child, above.child + 3, at) != above.child + 3);
            at = parent;
          }
          ASSERT_LE(steps, 12) << "rank " << rank << " of " << size << ", root " << root;
        }
}

TEST(RerootedTree, TakesReductionsToRankZeroAlways) {
  for (int size = 2; size <= 300; ++size) EXPECT_TRUE(rerooted_tree_takes(0, size)) << size;
  EXPECT_FALSE(rerooted_tree_takes(3, 8));
}

TEST(RerootedTree, OneTreeReducesToAnyRoot) {
  for (int size = 2; size <= 300; ++size)
    for (int root = 0; root < size; ++root)
      for (const int tree : {0, 1}) {
        const int used = tree_to_root(root, size, tree);
        ASSERT_LE(rerooted_double_tree(root, root, size, used).children(), 2)
            << "root " << root << " of " << size;
        ASSERT_TRUE(used == tree || !rerooted_tree_takes(root, size));
      }
}

}  // namespace
}  // namespace rondo
