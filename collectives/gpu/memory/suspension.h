// SPDX-License-Identifier: Apache-2.0
// Suspension: ncclCommSuspend and ncclCommResume for the ranks of one team. Their memory is freed
// when the last of them suspends, and restored when the first one resumes. That one also has the
// other teams of its process restore theirs, since one thread may resume all ranks in turn.
//
// Collective over the communicator, after its calls: what kernels of others still write afterwards
// goes to memory that no rank reads. A round: each process marks on the segment that it is
// suspended. Once all have, each allocates its memory again, marks that, and asks the others for
// what it maps of theirs. Guarantees: every wait ends with the caller's deadline; a resume() that
// failed for lack of memory can be tried again. Cost: that of DroppableMemory, and a request per
// block of others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/memory/droppable_memory.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

class ControlSegment;
class MemoryExchange;

class Suspension {
 public:
  // Only if there are other teams.
  struct Others {
    ControlSegment& segment;
    MemoryExchange& exchange;
    int process;
    const std::vector<int>& process_of;  // by rank
    const std::vector<int>& beside;      // other teams of this process
  };
  explicit Suspension(std::vector<int> local) : local_(std::move(local)) {}
  Suspension(std::vector<int> local, const Others& others)
      : local_(std::move(local)), others_(others) {}

  DroppableMemory& memory() { return memory_; }

  // is_over: whether everything that the process has enqueued has finished.
  Status suspend(int rank, const std::function<bool()>& is_over, const net::Deadline& deadline);
  Status resume(int rank, const net::Deadline& deadline);

  // Restores what round `round` has freed, once. Another team of this process asks for it.
  Status restore(std::uint64_t round);

  bool is_dropped() const { return dropped_; }

 private:
  Status wait_for(std::uint64_t round, bool resumed, int process, const net::Deadline& deadline);
  bool all_are_suspended(int rank) const;  // as often as this rank
  Status bring_back(const net::Deadline& deadline);

  const std::vector<int> local_;
  const std::optional<Others> others_;
  DroppableMemory memory_;
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> rounds_;  // by rank: rounds that it has begun
  std::uint64_t round_ = 0;              // rounds that all ranks of this process have begun
  std::mutex restoring_;                 // guards restored_
  std::uint64_t restored_ = 0;           // newest round after which the memory is restored
  std::atomic<bool> dropped_{false};
};

}  // namespace rondo::gpu
