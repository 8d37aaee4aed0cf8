// SPDX-License-Identifier: Apache-2.0
// CallAnnouncements: publishes a process's collectives, in order, to the processes that share its
// GPUs.
//
// Every plain call has a number and a descriptor in a ring of the segment. Captured calls have
// descriptors outside the ring; equal calls share one. Guarantees: if ranks make different calls at
// one place of the order, the last rank detects it; a descriptor is not overwritten while the
// leader's kernel or another process may need it. Not thread-safe, except newest().
// Cost: some stores and loads per rank; a wait if this process is a whole ring ahead.
#pragma once

#include <atomic>
#include <vector>

#include "base/result.h"
#include "collectives/faults/fault.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {

struct ProcessContext;

class CallAnnouncements {
 public:
  explicit CallAnnouncements(ProcessContext& context);

  // For a call that needs nothing else: publishes it to the other processes and compares.
  Status announce(const CallRecord& record, bool capturing, Mismatch* mismatch);

  // The same in steps. next(): number of the next plain call, once there is room for it. place():
  // index of a local rank's descriptor (sequence 0: captured). publish(): shows it to all others.
  Result<std::uint64_t> next() const;
  Result<std::uint32_t> place(int rank, const cuda::CallDescriptor& made);
  void publish(std::uint64_t sequence);
  void publish_for_leader(std::uint64_t sequence);  // if the leader's kernel also reads it
  // Compares with the ranks that have already made this call; later ranks compare themselves.
  Status compare(std::uint64_t sequence, const CallRecord& record, Mismatch* mismatch) const;

  std::uint64_t newest() const { return sequence_.load(std::memory_order_acquire); }

 private:
  bool has_room(std::uint64_t sequence) const;

  ProcessContext& context_;
  std::atomic<std::uint64_t> sequence_{0};   // number of plain collectives so far
  std::vector<std::uint64_t> leader_calls_;  // [plain descriptor]: the newest leader's call
  std::vector<std::uint32_t> captured_;  // [rank]: end of the descriptors used by captured calls
};

}  // namespace rondo::gpu
