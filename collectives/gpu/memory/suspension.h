// SPDX-License-Identifier: Apache-2.0
// Suspension: ncclCommSuspend and ncclCommResume for the ranks of one team. Their memory is freed
// when the last of them suspends, and restored when the first one resumes. That one also has the
// other teams of its process restore theirs, since one thread may resume all ranks in turn.
// An idle communicator that lends its memory (recall.h) drops the blocks without content in the
// same way, and the first process that takes them again has all others restore theirs: they may
// have no call to make.
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

  // For Recall: once all processes have decided it, and before the next call.
  Status lend();
  Status take_again(const net::Deadline& deadline);

  std::uint64_t own_bytes() const;  // of this team, droppable and not lent
  // Whether all of this team's own memory is dropped, not only what is lent.
  bool is_dropped() const { return is_dropped_ && !is_lent_; }

 private:
  Status wait_for(std::uint64_t round, bool resumed, int process, const net::Deadline& deadline);
  bool all_are_suspended(int rank) const;     // as often as this rank
  Status drop(DroppableMemory::Which which);  // with restoring_
  std::uint64_t newest_round();
  bool has_left(int process) const;
  std::vector<int> others_that_stay() const;  // processes
  Status bring_back(bool was_lent, const net::Deadline& deadline);

  const std::vector<int> local_;
  const std::optional<Others> others_;
  DroppableMemory memory_;
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> rounds_;  // by rank: suspensions that it has begun
  std::uint64_t suspensions_ = 0;        // that all ranks of this process have begun
  bool is_suspended_ = false;
  std::mutex restoring_;        // guards the following; never held while others are asked
  std::uint64_t round_ = 0;     // number of times that the memory was dropped
  std::uint64_t restored_ = 0;  // newest round after which the memory is restored
  std::atomic<bool> is_lent_{false}, is_dropped_{false};
};

}  // namespace rondo::gpu
