// SPDX-License-Identifier: Apache-2.0
// The two trees for every size from 1 to 300, free and rooted at each rank.
#include "base/double_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace rondo {
namespace {

static_assert(double_tree(0, 1, 0).parent == kNoRank && double_tree(0, 1, 1).children() == 0);

int ceil_log2(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n) - 1)); }

// Checks that `links` is one tree over all ranks; returns its root.
int check_tree(const std::vector<TreeLinks>& links) {
  const int size = static_cast<int>(links.size());
  int root = kNoRank;
  for (int rank = 0; rank < size; ++rank) {
    const TreeLinks& own = links[rank];
    if (own.parent == kNoRank) {
      EXPECT_EQ(root, kNoRank) << "two roots, size " << size;
      root = rank;
    } else {
      const TreeLinks& parent = links.at(own.parent);
      EXPECT_TRUE(parent.child[0] == rank || parent.child[1] == rank)
          << "rank " << rank << " of " << size;
    }
    if (own.child[0] == kNoRank) {
      EXPECT_EQ(own.child[1], kNoRank);
    } else {
      EXPECT_NE(own.child[0], own.child[1]);
    }
    for (const int child : own.child) {
      if (child == kNoRank) continue;
      EXPECT_EQ(links.at(child).parent, rank) << "size " << size;
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    int depth = 0;
    for (int at = rank; at != root && depth <= size; at = links[at].parent) ++depth;
    EXPECT_LE(depth, ceil_log2(size) + 1) << "rank " << rank << " of " << size;
  }
  return root;
}

TEST(DoubleTree, BothTreesSpanAndNoRankIsAnInnerNodeOfBoth) {
  for (int size = 1; size <= 300; ++size) {
    std::vector<TreeLinks> trees[2];
    for (int tree = 0; tree < 2; ++tree) {
      for (int rank = 0; rank < size; ++rank) trees[tree].push_back(double_tree(rank, size, tree));
      check_tree(trees[tree]);
    }
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(trees[0][rank].children() == 0 || trees[1][rank].children() == 0)
          << "rank " << rank << " of " << size;
    }
  }
}

TEST(DoubleTree, FromTwoRanksOnTheRootsDiffer) {
  for (int size = 2; size <= 300; ++size) {
    int roots[2] = {kNoRank, kNoRank};
    for (int rank = 0; rank < size; ++rank) {
      for (int tree = 0; tree < 2; ++tree) {
        if (double_tree(rank, size, tree).parent == kNoRank) roots[tree] = rank;
      }
    }
    EXPECT_NE(roots[0], roots[1]) << size;
  }
}

TEST(DoubleTree, TheRootedFormHangsBothTreesFromTheChosenRank) {
  for (int size = 1; size <= 300; ++size) {
    for (int root = 0; root < size; root += size <= 40 ? 1 : 37) {
      std::vector<TreeLinks> trees[2];
      for (int tree = 0; tree < 2; ++tree) {
        for (int rank = 0; rank < size; ++rank) {
          trees[tree].push_back(rooted_double_tree(rank, root, size, tree));
        }
        EXPECT_EQ(check_tree(trees[tree]), root);
        EXPECT_EQ(trees[tree][root].children(), size == 1 ? 0 : 1);
      }
      for (int rank = 0; rank < size; ++rank) {
        if (rank == root) continue;
        EXPECT_TRUE(trees[0][rank].children() == 0 || trees[1][rank].children() == 0)
            << "rank " << rank << " of " << size << ", root " << root;
      }
    }
  }
}

TEST(DoubleTree, HandlesMoreRanksThanAnyClusterHas) {
  constexpr int kSize = (1 << 30) + 12345;
  for (const int rank : {0, 1, kSize / 2, kSize - 2, kSize - 1}) {
    for (int tree = 0; tree < 2; ++tree) {
      const TreeLinks links = double_tree(rank, kSize, tree);
      for (const int child : links.child) {
        if (child == kNoRank) continue;
        EXPECT_EQ(double_tree(child, kSize, tree).parent, rank);
      }
    }
  }
}

}  // namespace
}  // namespace rondo
