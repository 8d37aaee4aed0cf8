// SPDX-License-Identifier: Apache-2.0
// The order of sums along a fixed binary tree over leaves, for host and device.
//
// The tree has 2^k leaves. A subtree is 2^level leaves that begin at a multiple of 2^level; its
// value is combine(left half, right half). So the value of the root is a function of the leaves
// alone. A run of leaves consists of whole subtrees, at most 2 log2(n) of them. The holder of a run
// sums them, and their sums are combined further up, anywhere.
//
//   subtree_level(leaf, end)   of the first subtree of the run leaf .. end - 1
//   LeafFold                   combines leaves or sums of subtrees, which come from left to right:
//                              a left half waits until its right half has come
//
// `Halves` has what is combined:
//   keep(level, value)             a left half of 2^level leaves waits
//   combine(leaf, level, right)    the value of the 2^(level + 1) leaves from `leaf` on, of the
//   half
//                                  that waits at `level` and `right`; the half no longer waits
//   write(value)                   a right half whose left half was not among the values
// Guarantees: every node is combined once, from its two halves. Cost: a step for each level that a
// value closes. tests/unit/checker/leaf_fold_test.cc proves the order, for every cut of 64 leaves
// that it tries, on expressions.
#pragma once

#include <cstdint>

#include "base/fn.h"

namespace rondo {

RONDO_FN constexpr int subtree_level(std::uint32_t leaf, std::uint32_t end) {
  int level = 0;
  while ((leaf >> level & 1) == 0 && leaf + (std::uint64_t{2} << level) <= end) ++level;
  return level;
}

struct LeafFold {
  std::uint32_t waiting = 0;  // bit k: a left half of level k

  // The value of 2^level leaves from `leaf` on; leaf 0 is the root's first.
  template <class Halves, class Value>
  RONDO_FN void add(Halves& halves, Value value, std::uint32_t leaf, int level) {
    RONDO_NO_UNROLL
    for (;; ++level) {
      const std::uint32_t n = std::uint32_t{1} << level;
      if ((leaf & n) == 0) break;  // a left half, or the root
      leaf -= n;
      if ((waiting & n) == 0) return halves.write(value);
      waiting &= ~n;
      value = halves.combine(leaf, level, value);
    }
    halves.keep(level, value);
    waiting |= std::uint32_t{1} << level;
  }
};

}  // namespace rondo
