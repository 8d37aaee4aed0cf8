// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel that sums along a tree of leaves (fold_leaves.h).
//
// Plain structs, read by host and device. Counts and steps are elements, pointers device addresses.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/direct_args.h"

namespace rondo::cuda {

// One rank's sources: its leaves first .. first + n - 1, or the sums of the subtrees that this run
// consists of (subtrees_of() in kernels/host/leaf_tree.h), one behind the other.
struct LeafHolder {
  const void* at;
  std::uint32_t first, n;
  std::uint64_t scalar;  // PreMulSum: the factor of its leaves, or its address
};
inline constexpr int kMaxLeafHolders = 128;  // a multiple of 64

// The elements are cut into slices of `slice`, the last one shorter. Source s of a holder has
// element i of slice b at `at + b * slice_step + i + s * source_step`.
struct FoldArgs {
  std::int32_t holders, targets;
  std::uint32_t sums;  // subtrees that all holders' leaves together consist of
  std::int32_t divisor;
  DataType type;  // of leaves and results
  RedOp op;
  bool once;    // sums are of the wider type of rondoRoundOnce
  bool leaves;  // else: sums of subtrees
  std::uint64_t count, slice, at, slice_step, source_step;
  std::uint64_t late_scalars[kMaxLeafHolders / 64];  // bit h: the scalar of holder h is its address
  // Null: the sum of all leaves is finished, divided by `divisor` if op is the average, and goes to
  // `target`. Else sums go here: slice after slice, in each slice subtree after subtree.
  void* partials;
  void* target[kMaxDirectRanks];
  LeafHolder holder[kMaxLeafHolders];  // in the order of their leaves, which have no gaps
};
static_assert(sizeof(FoldArgs) <= 4096);
inline constexpr int kFoldThreads = 256;
// Of shared memory: each thread has a place for each level of the tree.
inline constexpr unsigned kFoldHalfBytes = 8;
constexpr unsigned fold_shared(std::uint32_t leaves) {
  unsigned levels = 1;
  while (leaves >> levels != 0) ++levels;
  return levels * kFoldThreads * kFoldHalfBytes;
}

}  // namespace rondo::cuda
