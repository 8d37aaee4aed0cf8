// SPDX-License-Identifier: Apache-2.0
// Two complementary binary trees over ranks 0..size-1. Each tree carries half of the data, so that
// both directions of every rank's link are used.
//
// Both trees are the same in-order tree over places 1..size. The height of a place is its number of
// trailing zero bits: odd places are leaves, the root is the largest power of two. Rank r has place
// r + 1 in tree 0 and place r in tree 1 (rank 0: place size), so that the ranks with children
// alternate (the idea of Sanders, Speck and Traeff, 2009).
//
// Guarantees: every rank has at most two children, and has children in at most one tree (in the
// rooted form: every rank but the root). A subtree is a contiguous range of places, so neighbours
// in rank order are neighbours in the tree. The depth is at most floor(log2(size)) edges, one more
// when rooted. Cost: O(log size) integer steps, no memory; for set-up, not for every chunk.
//
//   TreeLinks mine = double_tree(rank, size, /*tree=*/0);
//   if (mine.parent == kNoRank) ...                      // this rank is the root
#pragma once

#include "base/fn.h"

namespace rondo {

inline constexpr int kNoRank = -1;

// One rank's neighbours in one tree; child[0] is filled first.
struct TreeLinks {
  int parent;
  int child[2];

  RONDO_FN constexpr int children() const {
    return (child[0] != kNoRank ? 1 : 0) + (child[1] != kNoRank ? 1 : 0);
  }
};

// The in-order tree over places 1..size; 0: no place.
namespace in_order_tree {

RONDO_FN constexpr unsigned lowest_bit(unsigned x) { return x & (0u - x); }

// The largest power of two that is at most x; 0 for 0.
RONDO_FN constexpr unsigned bit_floor(unsigned x) {
  unsigned bit = x;
  for (unsigned rest = x; rest != 0; rest &= rest - 1) bit = rest;
  return bit;
}

// The nearest ancestor in the infinite tree whose place is at most `size`.
RONDO_FN constexpr unsigned parent(unsigned place, unsigned size) {
  for (unsigned height = 2 * lowest_bit(place); height != 0 && height <= size; height *= 2) {
    const unsigned ancestor = (place & ~(2 * height - 1)) | height;
    if (ancestor <= size) return ancestor;
  }
  return 0;
}

RONDO_FN constexpr unsigned left_child(unsigned place) { return place - lowest_bit(place) / 2; }

// The right subtree: the places after this one, before the next place of at least its height.
RONDO_FN constexpr unsigned right_child(unsigned place, unsigned size) {
  const unsigned wide = lowest_bit(place) - 1;
  const unsigned count = size - place < wide ? size - place : wide;
  return count == 0 ? 0 : place + bit_floor(count);
}

}  // namespace in_order_tree

// The neighbours of `rank` in tree 0 or 1 over `size` ranks; the trees have different roots.
RONDO_FN constexpr TreeLinks double_tree(int rank, int size, int tree) {
  const int shift = tree == 0 ? 0 : 1;
  const auto count = static_cast<unsigned>(size);
  // place = 1 + (rank - shift) mod size, and back.
  const int turned = rank - shift;
  const auto place = static_cast<unsigned>(turned < 0 ? turned + size : turned) + 1;
  const unsigned up = in_order_tree::parent(place, count);
  const unsigned left = in_order_tree::left_child(place);
  const unsigned right = in_order_tree::right_child(place, count);
  const unsigned places[3] = {up, left == place ? 0 : left, right};
  int ranks[3] = {kNoRank, kNoRank, kNoRank};
  for (int i = 0; i < 3; ++i) {
    if (places[i] == 0) continue;
    const int back = static_cast<int>(places[i]) - 1 + shift;
    ranks[i] = back >= size ? back - size : back;
  }
  if (ranks[1] == kNoRank) return {ranks[0], {ranks[2], kNoRank}};
  return {ranks[0], {ranks[1], ranks[2]}};
}

// The same with one given root for both trees (broadcast, reduce). The trees span the other ranks,
// numbered from the root on. In each tree the root's only child is the top of that tree.
RONDO_FN constexpr TreeLinks rooted_double_tree(int rank, int root, int size, int tree) {
  if (size == 1) return {kNoRank, {kNoRank, kNoRank}};
  const int others = size - 1;
  if (rank == root) {
    const int top = static_cast<int>(in_order_tree::bit_floor(static_cast<unsigned>(others)));
    const int number = (top - 1 + (tree == 0 ? 0 : 1)) % others;
    return {kNoRank, {(root + 1 + number) % size, kNoRank}};
  }
  const int number = (rank - root - 1 + size) % size;
  TreeLinks links = double_tree(number, others, tree);
  links.parent = links.parent == kNoRank ? root : (root + 1 + links.parent) % size;
  for (int& child : links.child) {
    if (child != kNoRank) child = (root + 1 + child) % size;
  }
  return links;
}

}  // namespace rondo
