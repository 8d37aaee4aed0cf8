// SPDX-License-Identifier: Apache-2.0
// OrderedCalls: reductions whose bits depend on the leaves alone, not on which ranks hold them; and
// plain reductions in tree order that no algorithm along connections has (RONDO_REPRODUCIBLE=1
// between hosts): each rank is a leaf then.
//
// The ranks exchange which leaves they hold. Each sums the whole subtrees of its run. Then
//   at once       if the data is small and no rank holds more than one subtree: the sums of
//                 subtrees come with that exchange, and every rank combines them;
//   along ranks   if every rank holds one subtree of equal size, in rank order: the tree over ranks
//                 is the rest of the tree over leaves, and one plain call in tree order sums them;
//   gathered      if the data is small: every rank receives all sums of subtrees;
//   by owners     else: each rank receives the sums for its slice of the elements, combines them,
//                 and distributes its slice.
// Long calls run in pieces of bounded memory. Every step is announced as the program's call, so
// ranks that make another call, or with other leaves, are found in the first.
//
// Guarantees: the bits of LeafTree. Runs that do not hold every leaf once are the same error on
// all ranks, and the communicator stays usable. Cost: small data one gather, else a gather of 8
// bytes a rank, then that of the steps; no memory before the first call. RONDO_VERIFY does not
// verify these calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/planner/leaf_layout.h"
#include "collectives/planner/recent_plans.h"
#include "collectives/rank/rank_context.h"
#include "kernels/host/leaf_tree.h"

namespace rondo {

class OrderedCalls : RankPart {
 public:
  struct Planned {
    Plan plan;
    double moving_ns = 0;  // predicted, of its copies and sums on one thread
  };
  // How the engine runs a step, announced as the call `whole`.
  struct Steps {
    std::function<Status(const Call& step, const Planned& planned, const CallRecord& whole)> run;
    std::function<Status(std::span<const Call> messages, const CallRecord& whole)> run_messages;
  };
  OrderedCalls(RankContext& context, Steps steps)
      : RankPart(context), steps_(std::move(steps)), tree_(host::LeafSums{}) {}

  Status run(const Call& call);        // is_ordered()
  Status run_plain(const Call& call);  // reduces()

 private:
  // The call in progress.
  struct Sum {
    Collective plain = Collective::kAllReduce;
    Rounding rounding = Rounding::kOnce;
    std::uint32_t divisor = 1;  // of averages
    LeafRun root;               // of the tree
    DataType partial = DataType::kFloat32;
  };

  void begin(const Call& call, Collective plain, Rounding rounding, std::uint32_t leaves);
  Status sum_up(const Call& call);
  struct Piece {
    std::size_t at, count;  // elements of each part of the result
  };

  // In tree order over the ranks; null if there is no such plan, which is so for all ranks.
  // NCCL_ALGO and NCCL_PROTO choose for the program's plain calls only.
  const Planned* plan(const CallRecord& step);
  const Planned* make(const CallRecord& step);
  Status run_step(const Call& step, const CallRecord& whole);
  // sum_bytes: of a rank's sum of one subtree, which comes with its run; 0: runs alone.
  Status agree_on_layout(const Call& call, std::size_t sum_bytes);
  void combine_gathered(const Call& call, std::size_t of_rank, std::size_t max_sums);
  Result<bool> run_along_ranks(const Call& call);
  Status run_gathered(const Call& call);
  Status run_by_owners(const Call& call, const Piece& piece);
  Status exchange_sums(const Call& call, const Piece& piece);
  Status distribute(const Call& call, const Piece& piece);

  // The elements of a piece whose sums `owner` combines: an offset in a part of the result, and the
  // part.
  struct Slice {
    std::size_t part, at, count;
  };
  Slice slice_of(const Piece& piece, int owner) const;
  // Sums of this rank's subtrees, one behind the other.
  void sum_own(const Call& call, const Slice& slice, std::byte* to);
  void sum_subtree(const Call& call, LeafRun subtree, const Slice& slice, std::byte* to);
  std::size_t parts_of_leaf() const;  // one per rank if they are scattered, else one
  bool has_result(const Call& call) const;
  std::size_t piece_elements(std::size_t bytes_of_element, std::size_t count) const;

  Steps steps_;
  LeafLayout layout_;
  host::LeafTree tree_;
  Sum sum_;
  std::vector<LeafRun> runs_;
  std::vector<host::LeafSource> sources_;
  std::vector<Call> messages_;
  std::vector<const std::byte*> arrived_;  // by rank: its sums of this rank's slice
  RecentPlans<Planned> plans_;
  std::vector<std::byte> mine_, theirs_, combined_;
};

}  // namespace rondo
