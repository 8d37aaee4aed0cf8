// SPDX-License-Identifier: Apache-2.0
// DeviceMemory: the device memory of a team's ranks beside the callers' buffers, as blocks, and
// what frees it: ncclCommSuspend and ncclCommResume, and an idle communicator that lends it
// (recall.h).
//
// Addresses stay reserved (virtual_memory.h), so the owner of a block lists it once and does not
// have to be notified later. What becomes of a block (kNext in device_memory.cc):
//
//              allocate   suspend     lend   restore
//   absent     present    absent      absent absent
//   present    present    suspended   lent*  present
//   suspended             suspended          present
//   lent                  suspended   lent   present
//
// (*) Only blocks whose content does not matter: restoring them needs no stream, so it never waits
// for a kernel. Memory that cannot be freed (of cudaMalloc, or a CUDA IPC handle) is counted, and
// refilled after a suspension.
//
// Memory is freed when the last of the team's ranks suspends, and restored when the first one
// resumes. That one also has the other teams of its process restore theirs, since one thread may
// resume all ranks in turn. The first process that takes lent memory again has all others restore
// theirs: they may have no call to make.
//
// Suspension is collective over the communicator, after its calls: what kernels of others still
// write afterwards goes to memory that no rank reads. A round: each process marks on the segment
// that it is suspended. Once all have, each allocates its memory again, marks that, and asks the
// others for what it maps of theirs. Guarantees: every wait ends with the caller's deadline; a
// resume() that failed for lack of memory can be tried again. Thread-safe. Cost: some driver calls
// per block and change, and a request per block of others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/agree/control_segment.h"
#include "transport/memory/virtual_memory.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

class MemoryExchange;

class DeviceMemory {
 public:
  enum class State : std::uint8_t { kAbsent, kPresent, kSuspended, kLent };
  enum class Event : std::uint8_t { kAllocate, kSuspend, kLend, kRestore };

  // Only if there are other teams.
  struct Others {
    ControlSegment& segment;
    MemoryExchange& exchange;
    int process;
    const std::vector<int>& process_of;  // by rank
    const std::vector<int>& beside;      // other teams of this process
  };
  explicit DeviceMemory(std::vector<int> local) : local_(std::move(local)) {}
  DeviceMemory(std::vector<int> local, const Others& others)
      : local_(std::move(local)), others_(others) {}

  // Memory of a rank of this team. `refill` writes its content after it is restored; `let_go` runs
  // before it is freed. Either may be empty; if both are, the memory has no content. Both may run
  // again after a failure.
  void add(int rank, const std::byte* at, std::uint64_t bytes, std::function<Status()> refill = {},
           std::function<Status()> let_go = {});
  // Memory that is not freed.
  void add_kept(int rank, std::uint64_t bytes, std::function<Status()> refill);
  // Absent memory, of which only the addresses are reserved. Returns its number for allocate(), by
  // one thread at a time, which also refills it and returns whether it was absent.
  std::size_t add_absent(int rank, const std::byte* at, std::uint64_t bytes,
                         std::function<Status()> refill);
  Result<bool> allocate(std::size_t block);
  // Another process's memory, which that process sends as its answer to `question`. has_content:
  // its owner's `refill` writes it.
  void add_mapped(int process, const MemoryNote::Question& question, const std::byte* at,
                  bool has_content = false);

  // Before memory is allocated that will be listed here: idle communicators may free theirs.
  // with_room(): if it fails, once more after they have. room(urgent): whether they freed some.
  void ask_for_room(std::function<bool(bool urgent)> room);
  void make_room() const { (void)asked_for_room(false); }
  template <class Allocate>
  auto with_room(const Allocate& allocate) const -> decltype(allocate()) {
    auto made = allocate();
    return made.ok() || !asked_for_room(true) ? std::move(made) : allocate();
  }

  // How often memory was freed, and how often only that without content.
  std::uint64_t drops() const { return drops_.load(std::memory_order_relaxed); }
  std::uint64_t lends() const { return lends_.load(std::memory_order_relaxed); }

  // is_over: whether everything that the process has enqueued has finished.
  Status suspend(int rank, const std::function<bool()>& is_over, const net::Deadline& deadline);
  Status resume(int rank, const net::Deadline& deadline);
  // Restores what round `round` has freed, once. Another team of this process asks for it.
  Status restore(std::uint64_t round);
  // For Recall: once all processes have decided it, and before the next call.
  Status lend();
  Status take_again(const net::Deadline& deadline);

  // Of the rank's own memory: suspended or not, but without what is absent or lent.
  struct Bytes {
    std::uint64_t droppable = 0, kept = 0;
  };
  Bytes bytes(int rank) const;
  std::uint64_t own_bytes() const;  // of this team, droppable
  // Whether all of this team's own memory is freed, not only what is lent.
  bool is_dropped() const { return is_dropped_ && !is_lent_; }

 private:
  struct Own {
    int rank;
    std::uint64_t bytes;
    std::shared_ptr<VirtualMemory> memory;  // null: it cannot be freed
    std::function<Status()> refill, let_go;
    State state;
    bool can_be_lent() const { return memory && !refill && !let_go; }
  };
  struct Mapped {
    int process;
    MemoryNote::Question question;
    std::shared_ptr<VirtualMemory> memory;
    bool has_content;
  };

  bool asked_for_room(bool urgent) const;
  Status drop(Event event);  // with restoring_
  Status drop_blocks(Event event);
  Status restore_own();
  Status restore_mapped(std::uint64_t round, bool was_lent, const net::Deadline& deadline);
  Status bring_back(bool was_lent, const net::Deadline& deadline);
  Status wait_for(std::uint64_t round, bool resumed, int process, const net::Deadline& deadline);
  bool has_left(int process) const;

  const std::vector<int> local_;
  const std::optional<Others> others_;
  std::atomic<std::uint64_t> drops_{0}, lends_{0};
  mutable std::mutex blocks_mutex_;  // guards the following; never held while others are asked
  std::function<bool(bool urgent)> room_;
  std::vector<Own> own_;
  std::vector<Mapped> mapped_;
  std::mutex mutex_;
  std::map<int, std::uint64_t> rounds_;  // by rank: suspensions that it has begun
  std::uint64_t suspensions_ = 0;        // that all ranks of this process have begun
  bool is_suspended_ = false;
  std::mutex restoring_;        // guards the following; never held while others are asked
  std::uint64_t round_ = 0;     // number of times that the memory was freed
  std::uint64_t restored_ = 0;  // newest round after which the memory is restored
  std::atomic<bool> is_lent_{false}, is_dropped_{false};
};

}  // namespace rondo::gpu
