// Suspension: ncclCommSuspend and ncclCommResume for the ranks of one process, whose memory goes
// when the last of them is suspended, and is back when the first one resumes.
//
// By all ranks of a communicator, after their calls: what kernels of others still write then goes
// to memory that nobody reads. A round: processes say on their segment that they are suspended;
// once all have, each takes memory again and says so, and asks the others for what it maps of
// theirs. Guarantees: every wait ends with the caller's deadline; a resume() that failed, for want
// of memory, may be tried again. Cost: DroppableMemory's, and a question a block of others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/droppable_memory.h"
#include "transport/socket/deadline.h"

namespace rondo::gpu {

class ControlSegment;

class Suspension {
 public:
  // What there is where other processes have ranks, too.
  struct Others {
    ControlSegment& segment;
    MemoryExchange& exchange;
    int process;
    const std::vector<int>& process_of;  // by rank
  };
  explicit Suspension(std::vector<int> local) : local_(std::move(local)) {}
  Suspension(std::vector<int> local, const Others& others)
      : local_(std::move(local)), others_(others) {}

  DroppableMemory& memory() { return memory_; }

  // is_over: whether all that the process has enqueued is.
  Status suspend(int rank, const std::function<bool()>& is_over, const net::Deadline& deadline);
  Status resume(int rank, const net::Deadline& deadline);

  bool is_dropped() const { return dropped_; }

 private:
  Status wait_for(std::uint64_t round, bool resumed, int process, const net::Deadline& deadline);
  bool all_are_suspended(int rank) const;  // as often as this one
  Status bring_back(const net::Deadline& deadline);

  const std::vector<int> local_;
  const std::optional<Others> others_;
  DroppableMemory memory_;
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> rounds_;  // that a rank has begun
  std::uint64_t round_ = 0;              // that all ranks here have begun
  std::atomic<bool> dropped_{false};
};

}  // namespace rondo::gpu
