// SPDX-License-Identifier: Apache-2.0
// LeafLayout: which leaves of an ordered reduction each rank holds, and what follows from it.
//
// Guarantees: a pure function of the runs, so all ranks find the same errors in the same words.
// Cost: the same runs as before are one comparison.
//
//   LeafLayout layout;
//   RONDO_CHECK_OK(layout.set(runs, 64));
//   for (const LeafRun subtree : layout.subtrees_of(rank)) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace rondo {

// Of an ordered collective: the plain one. plain_call(): the record itself if it is plain.
Collective plain_of(Collective which);
CallRecord plain_call(const CallRecord& record);

class LeafLayout {
 public:
  // runs: by rank. An error if they do not hold leaves 0 .. leaves - 1 once.
  Status set(std::span<const LeafRun> runs, std::uint32_t leaves);

  // Whether plain calls in tree order, in which sums of narrow floats are rounded once, have the
  // bits of this call: each rank holds one leaf, and the sums round alike.
  bool is_plain(const CallRecord& ordered) const;
  // The same of an all-reduce, after each rank has summed its leaves to one value of the type.
  bool rest_is_plain(const CallRecord& ordered) const;
  // Every rank holds one subtree of equal size, in the order of the ranks.
  bool along_ranks() const { return along_ranks_; }
  std::span<const LeafRun> subtrees_of(int rank) const {
    return {subtrees_.data() + first_[static_cast<std::size_t>(rank)],
            first_[static_cast<std::size_t>(rank) + 1] - first_[static_cast<std::size_t>(rank)]};
  }
  std::size_t max_subtrees() const { return max_subtrees_; }     // of one rank
  std::size_t all_subtrees() const { return subtrees_.size(); }  // of all ranks
  LeafRun run_of(int rank) const { return runs_[static_cast<std::size_t>(rank)]; }
  // Ranks with leaves, in the order of their leaves.
  std::span<const int> order() const { return order_; }

 private:
  Status check() const;

  std::vector<LeafRun> runs_;
  std::uint32_t leaves_ = 0;
  std::vector<LeafRun> subtrees_;  // by rank
  std::vector<std::size_t> first_;
  std::vector<int> order_;
  std::size_t max_subtrees_ = 0;
  bool along_ranks_ = false;
  bool valid_ = false;
};

}  // namespace rondo
