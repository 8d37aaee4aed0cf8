// SPDX-License-Identifier: Apache-2.0
// OrderedLaunches: reductions along a tree of leaves, of the ranks of a device.
//
// If all ranks are on the device, one kernel sums their leaves. Else each rank sums the whole
// subtrees of its run into scratch memory, the ranks exchange these sums as messages, and
//   whole    if the data is small: every rank that has a result receives all sums;
//   sliced   else: each rank receives the sums of its slice, combines them, and the slices go to
//            the ranks that have a result.
// Long calls run in pieces that fit into the scratch memory.
//
// Guarantees: the bits of kernels/host/leaf_tree.h. Messages work between devices, processes and
// hosts, and where processes share a GPU; all of it is on the stream, also in a capture. Runs of
// all ranks are known before (Call::layout), so no rank waits on the host here. Cost: two launches
// of FoldLeaves and one or two of messages, for each piece and rank; scratch memory from the first
// call on, at most OrderedCut::kScratchBytes a rank; that call loads the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/plan/ordered_cut.h"
#include "collectives/gpu/team/team_context.h"
#include "kernels/cuda/fold_args.h"

namespace rondo::gpu {

class OrderedLaunches {
 public:
  explicit OrderedLaunches(TeamContext& team) : team_(team) {}
  // is_ordered(). With the team's mutex.
  Status enqueue(const JointCall& call, Mismatch* mismatch);
  // Before the plain call of the rest (LeafLayout::rest_is_plain), of the only rank of the device:
  // sums its leaves into the buffer of its result, which becomes what the call sends.
  Status sum_into_result(JointCall& call);

 private:
  struct Work {
    const JointCall* call;
    OrderedCut cut;
    GpuStream stream;
    bool captured;
    Mismatch* mismatch;
  };
  using Piece = OrderedCut::Piece;
  using Slice = OrderedCut::Slice;
  // Of a rank here, in its scratch memory.
  struct Areas {
    std::byte *own, *result;
    std::vector<std::byte*> of_rank;  // its sums of this rank's slice; null: none
  };

  int ranks() const { return team_.ranks(); }
  const Call& call_of(const Work& work, int rank) const {
    return work.call->posted[static_cast<std::size_t>(team_.place_of(rank))].call;
  }
  Status run(const Work& work);
  Status sum_here(const Work& work);
  Status run_piece(const Work& work, const Piece& piece);
  Areas areas_of(const Work& work, const Piece& piece, int rank) const;
  std::byte* own_sums(const Work& work, const Areas& areas, int from, const Slice& slice) const;

  Status sum_own(const Work& work, const Piece& piece, int rank, std::byte* to);
  Status combine(const Work& work, const Piece& piece, int rank, std::span<const Areas> areas);
  Status exchange(const Work& work, const Piece& piece, std::span<const Areas> areas);
  Status distribute(const Work& work, const Piece& piece, std::span<const Areas> areas);
  Status send(const Work& work, std::span<const ProcessMessage> messages) const;
  Status launch(const Work& work, cuda::FoldArgs& args) {
    return launch(work.cut.record, work.call->max_ctas(), work.stream, args);
  }
  Status launch(const CallRecord& record, int max_ctas, GpuStream stream, cuda::FoldArgs& args);
  Status prepare();
  Status take_scratch();

  TeamContext& team_;
  int max_ctas_ = 0;                // 0: not prepared
  std::vector<OwnMemory> scratch_;  // by place
};

}  // namespace rondo::gpu
