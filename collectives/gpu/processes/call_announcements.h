// SPDX-License-Identifier: Apache-2.0
// CallAnnouncements: publishes a process's collectives, in order, to the processes that share its
// GPUs.
//
// Every plain call has a number and a descriptor in a ring of the segment. Captured calls have
// descriptors outside the ring; equal calls share one. Guarantees: if ranks make different calls at
// one place of the order, the last rank detects it; a descriptor is not overwritten while the
// leader's kernel or another process may need it; a process that is ahead of another one by more
// commands than the driver's queue takes waits on its host, at most for the communicator's timeout
// (control_segment.h has the limits). Not thread-safe, except newest().
// Cost: some stores and loads per rank; that wait.
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

  // What a call puts into the driver's queue. waits: its streams wait for words of other processes.
  struct Commands {
    std::uint64_t number;
    bool waits;
  };

  // The same in steps. next(): number of the next plain call, once there is room for it. place():
  // index of a local rank's descriptor (sequence 0: captured). publish(): shows it to all others.
  Result<std::uint64_t> next(const Commands& commands);
  Result<std::uint32_t> place(int rank, const cuda::CallDescriptor& made);
  void publish(std::uint64_t sequence);
  void publish_for_leader(std::uint64_t sequence);  // if the leader's kernel also reads it
  // Compares with the ranks that have already made this call; later ranks compare themselves.
  Status compare(std::uint64_t sequence, const CallRecord& record, Mismatch* mismatch) const;

  std::uint64_t newest() const { return sequence_.load(std::memory_order_acquire); }

 private:
  std::uint64_t slowest() const;  // newest call that all processes have announced
  bool has_room(std::uint64_t sequence, const Commands& commands) const;
  Error timed_out(double seconds) const;

  ProcessContext& context_;
  std::atomic<std::uint64_t> sequence_{0};   // number of plain collectives so far
  std::vector<std::uint64_t> leader_calls_;  // [plain descriptor]: the newest leader's call
  std::vector<std::uint64_t> commands_;      // [plain descriptor]: of all calls up to its own
  std::uint64_t next_commands_ = 0;          // of the call that next() has numbered
  std::vector<std::uint32_t> captured_;  // [rank]: end of the descriptors used by captured calls
};

}  // namespace rondo::gpu
