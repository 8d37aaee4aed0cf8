// SPDX-License-Identifier: Apache-2.0
// CallSteps: splits a collective of ranks in several processes into steps that fit into staging. A
// pure function of what all ranks know, so all ranks split alike.
//
// Staged ranks copy a step's input in, the leader's kernel does the step, and they copy its output
// out. Segments of the user's buffers (blocks by rank) are packed in staging. Making one costs
// nothing.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {

// Number of segments, of `count` elements each, that a rank sends and receives.
struct Segments {
  int sent = 1, received = 1;
};
Segments segments_of(Collective which, int ranks);

class CallSteps {
 public:
  CallSteps(const CallRecord& record, int ranks, const cuda::StagingShape& staging);

  std::uint64_t size() const { return size_; }
  cuda::CallStep operator[](std::uint64_t number) const;

  // Segments that a rank sends or receives in the whole call.
  int segments_sent() const { return segments_.sent; }
  int segments_received() const { return segments_.received; }
  bool sends(int rank) const;  // whether the rank's input has any part in the call
  bool receives(int rank, const cuda::CallStep& step) const;

  // Copies a step's input from a rank's buffers to its staging, or its output back.
  Status copy(std::uint64_t number, bool in, const Buffers& user, std::byte* staged,
              DirectLaunches* copies) const;

 private:
  CallRecord record_;
  Segments segments_;
  bool by_segment_ = false;
  std::uint64_t piece_ = 0, pieces_ = 1, size_ = 1;
};

}  // namespace rondo::gpu
