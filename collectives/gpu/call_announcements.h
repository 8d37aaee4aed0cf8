// CallAnnouncements: how processes that share GPUs tell each other of their collectives, in order.
//
// Every plain call has a number and a descriptor in the segment, in a ring; captured calls have
// descriptors of their own, equal ones shared. Guarantees: ranks that make different calls in one
// place of the order are found by the last rank; a descriptor is not overwritten while the
// leader's kernel or another process may need it. One caller at a time, but for newest() and
// not_come(). Cost: some stores and loads a rank; a wait where this process is a ring ahead.
#pragma once

#include <atomic>
#include <vector>

#include "collectives/gpu/process_context.h"

namespace rondo::gpu {

class CallAnnouncements {
 public:
  explicit CallAnnouncements(ProcessContext& context);

  // Of a call that needs no more than that: tells the other processes, compares.
  // in_windows: its buffers are in symmetric windows, as must be those of all others or of none.
  Status announce(const CallRecord& record, bool in_windows, bool capturing, Mismatch* mismatch);

  // The same in steps: the number of the next plain call, once there is room for it; where its
  // descriptors lie, of each local rank (sequence 0: captured); then all others may see it.
  Result<std::uint64_t> next() const;
  Result<std::uint32_t> place(int rank, const cuda::CallDescriptor& made);
  void publish(std::uint64_t sequence);
  void publish_led(std::uint64_t sequence);  // the leader's kernel reads it too
  // With the ranks that have made this call already; those that come later compare themselves.
  Status compare(std::uint64_t sequence, const CallRecord& record, bool in_windows,
                 Mismatch* mismatch) const;

  std::uint64_t newest() const { return sequence_.load(std::memory_order_acquire); }
  // Ranks that have not made the newest call that this process has; while nothing is captured.
  std::vector<int> not_come() const;

 private:
  bool has_room(std::uint64_t sequence) const;

  ProcessContext& context_;
  std::atomic<std::uint64_t> sequence_{0};  // plain collectives so far
  std::vector<std::uint64_t> led_;          // by place of a plain descriptor: the newest led call
  std::vector<std::uint32_t> captured_;     // by rank: descriptors used by captured calls
};

}  // namespace rondo::gpu
