// Job: one collective call as the checker sees it: the shapes of the buffers, and what every output
// element must be in the end.
//
// Counts are elements; `count` is what the caller of the C API gives (a rank's block where the
// collective has blocks). The order of a reduction is a function of the element, for algorithms
// reduce different parts in different orders.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/check/expressions.h"
#include "kernels/check/tracked_memory.h"

namespace rondo::check {

// The expression of element `element` of call `call`, combined over all ranks, not finished.
using Reduced = std::function<Expr(Expressions& pool, int call, std::uint64_t element)>;

// The balanced binary tree over rank numbers.
Reduced tree_order(int ranks);
// The balanced tree over hosts of the balanced trees over the ranks of each.
Reduced host_tree_order(std::vector<std::vector<int>> hosts);
// (((first host + next) + ...) + last) of the balanced trees over the ranks of each, from the host
// that first(element) says.
Reduced host_ring_order(std::vector<std::vector<int>> hosts,
                        std::function<int(std::uint64_t)> first);
// (((first + next) + ...) + last) along a ring, from the position that first(element) says.
// `ring` holds the rank at every position.
Reduced ring_order(std::vector<int> ring, std::function<int(std::uint64_t)> first);
// The double binary tree's: tree(element) says which of the two. root: that of a rooted tree, or
// -1. Over positions: `order` holds the rank at each; empty: its number is its position.
Reduced double_tree_order(int ranks, int root, const std::function<int(std::uint64_t)>& tree,
                          const std::vector<int>& order = {});
// The same along the links of the free trees, rooted at the root (rerooted_tree.h).
Reduced rerooted_tree_order(int ranks, int root, const std::function<int(std::uint64_t)>& tree,
                            const std::vector<int>& order = {});

struct Job {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  std::uint64_t count = 0;
  bool in_place = false;
  Reduced reduced;  // of collectives that reduce

  std::uint64_t input_size(int rank) const;
  std::uint64_t output_size(int rank) const;
};

// The buffers of one rank in one call, with guard elements around them. In place they overlap as
// the API defines it for the collective.
class UserBuffers {
 public:
  UserBuffers(Witness& witness, Expressions& pool, const Job& job, int call, int rank);

  // Accesses by `thread`, which may belong to another rank. Reports a position out of bounds.
  Expr read_input(std::uint64_t at, int thread);
  void write_output(std::uint64_t at, int thread, Expr value);
  Expr read_output(std::uint64_t at, int thread);
  // Whether an input element and an output element are the same memory.
  bool same(std::uint64_t input_at, std::uint64_t output_at) const {
    return input_begin_ + input_at == output_begin_ + output_at;
  }

  // What the caller does after the call: reads all results (and finds wrong ones), sees that
  // nothing else has changed, and uses the memory for something else.
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

// What the outputs of one call must hold.
class Expectation {
 public:
  Expectation(Expressions& pool, const Job& job, int call);
  std::vector<Expr> output(int rank) const;

 private:
  Expressions* pool_;
  Job job_;
  int call_;
  std::vector<Expr> whole_;  // the finished reductions, by input element
};

}  // namespace rondo::check
