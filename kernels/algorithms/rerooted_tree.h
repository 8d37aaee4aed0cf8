// SPDX-License-Identifier: Apache-2.0
// Broadcast and reduce from or to any root, along the links of the unrooted double tree (tree.h).
// For executors that make all connections in advance and pay memory for each of them.
//
// Traffic per rank for S bytes: S, as for a tree built for the root, in at most 2 * log2(n) steps
// instead of log2(n) + 1. Order of a reduction: in each tree (first child's + own) + second
// child's. The children of a rank are its neighbours except the one towards the root; those below
// it come first. Slots: as tree.h. A root may have three neighbours in one of the trees, but a
// reduction supports at most two. So both trees carry a reduction only if
// rerooted_tree_takes(root), which always holds for root 0. To other roots each channel runs one
// tree: tree_to_root().
#pragma once

#include "base/double_tree.h"
#include "kernels/algorithms/tree.h"
#include "kernels/primitives.h"

namespace rondo {

// A rank's neighbours in one tree, seen from the root. The children are filled from first to last.
struct RerootedLinks {
  int parent = kNoRank;
  int child[3] = {kNoRank, kNoRank, kNoRank};

  RONDO_FN constexpr int children() const {
    return (child[0] != kNoRank ? 1 : 0) + (child[1] != kNoRank ? 1 : 0) +
           (child[2] != kNoRank ? 1 : 0);
  }
};

RONDO_FN constexpr RerootedLinks rerooted_double_tree(int rank, int root, int size, int tree) {
  const TreeLinks links = double_tree(rank, size, tree);
  // Places as in base/double_tree.h; a subtree is a range of them.
  const int shift = tree == 0 ? 0 : size - 1;
  const int own = (rank + shift) % size + 1, wanted = (root + shift) % size + 1;
  const int height = static_cast<int>(in_order_tree::lowest_bit(static_cast<unsigned>(own)));
  int toward = links.parent;
  if (wanted < own && wanted > own - height) toward = links.child[0];
  if (wanted > own && wanted < own + height)
    toward = links.child[1] != kNoRank ? links.child[1] : links.child[0];
  if (wanted == own) toward = kNoRank;
  RerootedLinks rerooted;
  rerooted.parent = toward;
  const int neighbours[3] = {links.child[0], links.child[1], links.parent};
  int filled = 0;
  RONDO_UNROLL  // all indices are compile-time constants, so everything stays in registers
      for (int i = 0; i < 3; ++i) {
    const int neighbour = neighbours[i];
    const bool below = neighbour != kNoRank && neighbour != toward;
    if (below && filled == 0) rerooted.child[0] = neighbour;
    if (below && filled == 1) rerooted.child[1] = neighbour;
    if (below && filled == 2) rerooted.child[2] = neighbour;
    filled += below ? 1 : 0;
  }
  return rerooted;
}

RONDO_FN constexpr bool has_three_neighbours(int rank, int size, int tree) {
  const TreeLinks links = double_tree(rank, size, tree);
  return links.parent != kNoRank && links.children() == 2;
}
constexpr bool rerooted_tree_takes(int root, int size) {
  return !has_three_neighbours(root, size, 0) && !has_three_neighbours(root, size, 1);
}
// The tree of a reduction by `tree` alone: the other one if the root has three neighbours in it,
// because a rank with children in one tree is a leaf of the other. kBothTrees remains.
RONDO_FN constexpr int tree_to_root(int root, int size, int tree) {
  return tree != kBothTrees && has_three_neighbours(root, size, tree) ? 1 - tree : tree;
}

template <Links C>
struct RerootedEnds {
  const RerootedLinks links;
  const int number;
  const Peers parent{links.parent, -1};
  const Peers children{links.child[0], links.child[1]};
  const Peers third{links.child[2], -1};

  RONDO_FN Chunk chunk(const Rounds& rounds, std::uint64_t round) const {
    return chunk_of_tree(rounds, round, number);
  }
};

// Calls visit(ends, chunk) for the given tree or both, round after round. kFirst selects which tree
// starts: the one in which the rank has fewer or more children. If the rank is a leaf of one tree,
// the first tree is kTreeLead rounds ahead (as TreePair, tree.h).
enum class First : std::uint8_t { kMinChildren, kMaxChildren };

template <First kFirst, Links C, class Visit>
RONDO_FN void for_rerooted_trees(C& c, int root, const Rounds& rounds, int tree, Visit&& visit) {
  const auto links = [&](int of) { return rerooted_double_tree(c.rank(), root, c.size(), of); };
  const int minimum = links(0).children() <= links(1).children() ? 0 : 1;
  const int first = kFirst == First::kMinChildren ? minimum : 1 - minimum;
  // Recomputed for each chunk: keeping both trees would take too many GPU registers.
  const std::uint64_t later = links(minimum).children() == 0 ? kTreeLead : 0;
  const bool both = tree == kBothTrees;
  const std::uint64_t turns = both ? 2 * (rounds.size() + later) : rounds.size();
  for (std::uint64_t t = 0; t < turns; ++t) {
    const std::uint64_t second = both ? t & 1 : 0, round = both ? t / 2 - second * later : t;
    if (round >= rounds.size()) continue;  // also if negative (wraps)
    const int number = both ? first ^ static_cast<int>(second) : tree;
    const RerootedEnds<C> ends{links(number), number};
    visit(ends, ends.chunk(rounds, round));
  }
}

template <Links C>
RONDO_FN void rerooted_tree_broadcast(C& c, int root, const Rounds& rounds) {
  for_rerooted_trees<First::kMaxChildren>(
      c, root, rounds, rounds.tree, [&](const RerootedEnds<C>& tree, Chunk chunk) {
        if (c.rank() == root) {
          c.between({}, tree.children, tree.number).copy_send(chunk);
          if (tree.third.first != kNoRank) c.between({}, tree.third, tree.number).send(chunk);
        } else {
          c.between(tree.parent, tree.children, tree.number).recv_copy_send(chunk);
        }
      });
}

template <Links C>
RONDO_FN void rerooted_tree_reduce(C& c, int root, const Rounds& rounds) {
  const int used = tree_to_root(root, c.size(), rounds.tree);
  for_rerooted_trees<First::kMinChildren>(
      c, root, rounds, used, [&](const RerootedEnds<C>& tree, Chunk chunk) {
        if (c.rank() == root) {
          c.between(tree.children, {}, tree.number).recv_reduce_copy(chunk);
        } else {
          c.between(tree.children, tree.parent, tree.number).recv_reduce_send(chunk);
        }
      });
}

}  // namespace rondo
