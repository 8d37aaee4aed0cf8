// SPDX-License-Identifier: Apache-2.0
// DroppableMemory: the device memory of a communicator in this process that ncclCommSuspend frees.
// Its addresses stay reserved (virtual_memory.h), so its owner lists it here once, when it is made,
// and does not have to be notified later.
//
// An idle communicator lends only the blocks whose content does not matter (recall.h): restoring
// them needs no stream, so it never waits for a kernel.
//
// Memory that cannot be dropped (of cudaMalloc, or a CUDA IPC handle) stays and is counted.
// Thread-safe. Cost: some driver calls per block for each drop and each restore.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/agree/control_segment.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {

class DroppableMemory {
 public:
  // Memory of a rank of this process. `refill` writes its content after it is restored; `let_go`
  // runs before it is dropped. Either may be empty; if both are, the memory can be lent. Both may
  // run again after a failure.
  void add(int rank, const std::byte* at, std::uint64_t bytes, std::function<Status()> refill = {},
           std::function<Status()> let_go = {});
  // Memory that is not dropped: it is only counted, and refilled with the rest.
  void add_kept(int rank, std::uint64_t bytes, std::function<Status()> refill);
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

  // How often memory was dropped, and how often only that without content.
  std::uint64_t drops() const { return drops_.load(std::memory_order_relaxed); }
  std::uint64_t lends() const { return lends_.load(std::memory_order_relaxed); }

  enum class Which : std::uint8_t { kAll, kWithoutContent };
  Status drop(Which which);
  Status bring_back();  // what is dropped
  // Restores mapped memory; handle_of() requests it from its process. A handle without a file: the
  // process has left, and memory that nobody reads takes the place of its own.
  using Ask = std::function<Result<MemoryHandle>(int process, const MemoryNote::Question&)>;
  Status bring_back_mapped(const Ask& handle_of);

  // Of the rank's own memory: suspended or not, but without what is lent.
  struct Bytes {
    std::uint64_t droppable = 0, kept = 0;
  };
  Bytes bytes(int rank) const;

 private:
  struct Own {
    int rank;
    std::uint64_t bytes;
    std::shared_ptr<VirtualMemory> memory;  // null: it cannot be dropped
    std::function<Status()> refill, let_go;
    bool is_dropped = false, is_lent = false;
    bool has_content() const { return refill || let_go; }
  };
  struct Mapped {
    int process;
    MemoryNote::Question question;
    std::shared_ptr<VirtualMemory> memory;
    bool has_content;
  };

  bool asked_for_room(bool urgent) const;

  std::atomic<std::uint64_t> drops_{0}, lends_{0};
  mutable std::mutex mutex_;
  std::function<bool(bool urgent)> room_;
  std::vector<Own> own_;
  std::vector<Mapped> mapped_;
};

}  // namespace rondo::gpu
