// SPDX-License-Identifier: Apache-2.0
// CallSpec: one collective call for the checker: the sizes of the buffers, and the required value
// of every output element.
//
// Counts are elements; `count` is the count that the caller of the C API passes (a rank's block if
// the collective has blocks). The order of a reduction is a function of the element, because
// algorithms reduce different parts in different orders.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/types.h"
#include "tests/checker/expressions.h"

namespace rondo::check {

// The expression of element `element` of call `call`, combined over all ranks, not finished.
using Reduced = std::function<Expr(Expressions& pool, int call, std::uint64_t element)>;

// The balanced binary tree over rank numbers.
Reduced tree_order(int ranks);
// The balanced tree over hosts of the balanced trees over the ranks of each.
Reduced host_tree_order(std::vector<std::vector<int>> hosts);
// (((first host + next) + ...) + last) of the balanced trees over the ranks of each, starting at
// the host first(element).
Reduced host_ring_order(std::vector<std::vector<int>> hosts,
                        std::function<int(std::uint64_t)> first);
// (((first + next) + ...) + last) along a ring, starting at position first(element). `ring` holds
// the rank at every position.
Reduced ring_order(std::vector<int> ring, std::function<int(std::uint64_t)> first);
// The order of the double binary tree: tree(element) returns which of the two trees. root: the root
// of a rooted tree, or -1. `order`: the rank at each position; empty: position p holds rank p.
Reduced double_tree_order(int ranks, int root, const std::function<int(std::uint64_t)>& tree,
                          const std::vector<int>& order = {});
// The same along the links of the unrooted trees, from the root (rerooted_tree.h).
Reduced rerooted_tree_order(int ranks, int root, const std::function<int(std::uint64_t)>& tree,
                            const std::vector<int>& order = {});

struct CallSpec {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  std::uint64_t count = 0;
  bool in_place = false;
  Reduced reduced;  // for collectives that reduce

  std::uint64_t input_size(int rank) const;
  std::uint64_t output_size(int rank) const;
};

// The buffers of one rank in one call, with guard elements around them. If the call is in place,
// they overlap as the API defines for the collective.
class UserBuffers {
 public:
  UserBuffers(Witness& witness, Expressions& pool, const CallSpec& spec, int call, int rank);

  // Accesses by `thread`, which may belong to another rank. A position out of bounds is reported.
  Expr read_input(std::uint64_t at, int thread);
  void write_output(std::uint64_t at, int thread, Expr value);
  Expr read_output(std::uint64_t at, int thread);
  // True if an input element and an output element are the same memory.
  bool same(std::uint64_t input_at, std::uint64_t output_at) const {
    return input_begin_ + input_at == output_begin_ + output_at;
  }

  // Acts as the caller after the call: reads all results (which finds wrong ones), checks that
  // nothing else has changed, and reuses the memory.
  void finish(const std::vector<Expr>& expected, int thread);

 private:
  static constexpr std::uint64_t kGuard = 2;
  bool inside(std::uint64_t at, std::uint64_t size, const char* what, int thread);

  Witness* witness_;
  Expressions* pool_;
  std::string owner_;
  std::uint64_t input_begin_ = 0, input_size_ = 0;
  std::uint64_t output_begin_ = 0, output_size_ = 0;
  TrackedMemory memory_;
  std::vector<Expr> before_;
};

// The required outputs of one call.
class Expectation {
 public:
  Expectation(Expressions& pool, const CallSpec& spec, int call);
  std::vector<Expr> output(int rank) const;

 private:
  Expressions* pool_;
  CallSpec spec_;
  int call_;
  std::vector<Expr> whole_;  // the finished reductions, by input element
};

}  // namespace rondo::check
