// SPDX-License-Identifier: Apache-2.0
// LeafTree: sums along a fixed binary tree over leaves, however the ranks share them.
//
// The tree, its subtrees and the order of its sums are those of kernels/leaf_fold.h.
//
// Guarantees: values, NaN and signed zeros as in kernels/reduce.h, lower leaves left. With
// `partial` equal to `leaf`, each node rounds to that type. With a wider `partial`, nothing is
// rounded to `leaf` before finish(). Cost: wide types, and whole subtrees of equal parts, in one
// pass over the sources; else a pass per pair, in pieces that stay in the first-level cache. No
// allocation after the first sum.
//
//   LeafTree tree({DataType::kBfloat16, DataType::kFloat32, RedOp::kSum});
//   for (const LeafRun subtree : subtrees_of({5, 3}))     // 5; 6 and 7
//     tree.sum_leaves(subtree, mine, count, partials[...]);
//   tree.sum_partials({0, 8}, all, count, sum);
//   tree.finish(sum, count, 8, result);
//
// Source: a fixed tree over leaves for any number of ranks, KIT's reproducible reduction (2025);
// rounding in each node, the pairwise trees of tree-based invariant kernels (ICML 2026).
#pragma once

#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "base/types.h"

namespace rondo::host {

// From left to right.
std::vector<LeafRun> subtrees_of(LeafRun run);
constexpr bool is_subtree(LeafRun run) {
  return std::has_single_bit(run.n) && run.first % run.n == 0;
}

struct LeafSums {
  DataType leaf = DataType::kFloat32;     // of leaves and of the result
  DataType partial = DataType::kFloat32;  // of sums in between: `leaf`, or a wider float
  RedOp op = RedOp::kSum;
  const void* scalar = nullptr;  // PreMulSum: every leaf's factor, one element of `leaf`
};

// The type of sums in between.
DataType partial_type(DataType leaf, Rounding rounding);

// A leaf, or the sum of a subtree.
struct LeafSource {
  LeafRun run;
  const std::byte* data = nullptr;
};

class LeafTree {
 public:
  explicit LeafTree(const LeafSums& sums) : sums_(sums) {}
  void use(const LeafSums& sums) { sums_ = sums; }

  // The sum of subtree `root`, whose leaves `sources` hold in their order; there may be none on the
  // right. `target` holds `partial` elements and may be no source.
  void sum_leaves(LeafRun root, std::span<const LeafSource> sources, std::size_t count,
                  std::byte* target);
  void sum_partials(LeafRun root, std::span<const LeafSource> sources, std::size_t count,
                    std::byte* target);
  // Averages are divided by the number of leaves, then all is rounded to `leaf`. `result` may be
  // `sum` if the two types are equal.
  void finish(const std::byte* sum, std::size_t count, std::uint32_t leaves, std::byte* result);

 private:
  // Of the elements: one that stays in the first-level cache.
  struct Piece {
    LeafRun root;
    std::size_t at, count;
    bool leaves;
    std::byte* target;
  };
  class Halves;

  void sum(LeafRun root, std::span<const LeafSource> sources, std::size_t count, bool leaves,
           std::byte* target);
  bool converts(bool leaves) const;
  const std::byte* sum_piece(std::span<const LeafSource> sources, const Piece& piece);
  const std::byte* load(const std::byte* source, const Piece& piece, std::byte* slot) const;

  LeafSums sums_;
  std::vector<std::byte> slots_;      // of a piece each: by level, and one for a right half
  std::vector<const void*> at_once_;  // sources that one pass sums
};

}  // namespace rondo::host
