// SPDX-License-Identifier: Apache-2.0
// The reduction tree of reduce.h in a form that stays in registers.
//
// reduce.h's combine_tree() keeps partial results in an array with run-time indexes, which a GPU
// would put on the stack. Both forms here give the same order, so the same bits:
//   fixed_tree<op, leaves>(n, leaf)   n <= leaves sources, all read first: a full binary tree; a
//                                     pair without a right half equals its left half
//   counted_tree<op>(n, source)       any n below 2^kTreeLevels: a binary counter, unrolled
//   TreeCounter                       that counter, for the results of groups of 2^k sources: group
//                                     after group gives the same tree
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

template <RedOp op, int leaves, int first = 0, class Leaf>
RONDO_FN inline auto fixed_tree(int n, Leaf&& leaf) {
  if constexpr (leaves == 1) {
    return leaf(first);
  } else {
    const auto left = fixed_tree<op, leaves / 2, first>(n, leaf);
    const auto right = fixed_tree<op, leaves / 2, first + leaves / 2>(n, leaf);
    return first + leaves / 2 < n ? Reduction<op>::combine(left, right) : left;
  }
}

// Reduction<op>::finish(), but averages of integers of up to 32 bits use no 64-bit division.
template <RedOp op, class Acc>
RONDO_FN inline Acc finish_reduction(Acc result, int n) {
  if constexpr (op == RedOp::kAvg && std::is_integral_v<Acc> && sizeof(Acc) <= 4) {
    using Wide = std::conditional_t<std::is_signed_v<Acc>, std::int32_t, std::uint32_t>;
    return static_cast<Acc>(static_cast<Wide>(result) / static_cast<Wide>(n));
  } else {
    return Reduction<op>::finish(result, n);
  }
}

inline constexpr int kTreeLevels = 7;

template <RedOp op, class Acc, int levels = kTreeLevels>
class TreeCounter {
 public:
  // Value `number`, in order, from 0; below 2^levels.
  RONDO_FN void add(int number, Acc value) {
    bool carries = true;
    RONDO_UNROLL
    for (int level = 0; level < levels; ++level) {
      const bool occupied = (number >> level & 1) != 0;
      if (carries && occupied) value = Reduction<op>::combine(partial_[level], value);
      if (carries && !occupied) partial_[level] = value;
      carries = carries && occupied;
    }
  }
  // Of n values.
  RONDO_FN Acc result(int n) const {
    Acc result{};
    bool any = false;
    RONDO_UNROLL
    for (int level = 0; level < levels; ++level) {
      if ((n >> level & 1) == 0) continue;
      result = any ? Reduction<op>::combine(partial_[level], result) : partial_[level];
      any = true;
    }
    return result;
  }

 private:
  Acc partial_[levels];  // every index is constant after unrolling
};

template <RedOp op, class Source>
RONDO_FN inline auto counted_tree(int n, Source&& source) {
  TreeCounter<op, decltype(source(0))> tree;
  RONDO_NO_UNROLL
  for (int s = 0; s < n; ++s) tree.add(s, source(s));
  return tree.result(n);
}

}  // namespace rondo::cuda
