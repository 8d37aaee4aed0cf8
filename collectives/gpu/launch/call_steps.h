// CallSteps: how a collective of ranks in several processes is cut into steps that fit into
// staging. A pure function of what all ranks know, so that all of them cut alike.
//
// Staged ranks copy a step's input in, the leader's kernel does the step, they copy its output out.
// Segments of the user's buffers (blocks by rank) lie packed in staging. Costs nothing to make.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {

// Of `count` elements each, that a rank sends and receives.
struct Segments {
  int sent = 1, received = 1;
};
Segments segments_of(Collective which, int ranks);

class CallSteps {
 public:
  CallSteps(const CallRecord& record, int ranks, const cuda::StagingShape& staging);

  std::uint64_t size() const { return size_; }
  cuda::CallStep operator[](std::uint64_t number) const;

  // Segments that a rank sends or receives in every step of the whole call.
  int segments_sent() const { return segments_.sent; }
  int segments_received() const { return segments_.received; }
  bool sends(int rank) const;  // whether the rank's input has any part in the call
  bool receives(int rank, const cuda::CallStep& step) const;

  // Between a rank's buffers and its staging: a step's input, or its output.
  Status copy(std::uint64_t number, bool in, const Buffers& user, std::byte* staged,
              DirectLaunches* copies) const;

 private:
  CallRecord record_;
  Segments segments_;
  bool by_segment_ = false;
  std::uint64_t piece_ = 0, pieces_ = 1, size_ = 1;
};

}  // namespace rondo::gpu
