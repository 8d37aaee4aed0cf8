// SPDX-License-Identifier: Apache-2.0
// DroppableMemory: the device memory of a communicator in this process that ncclCommSuspend frees.
// Its addresses stay reserved (virtual_memory.h), so its owner lists it here once, when it is made,
// and does not have to be notified later.
//
// Memory that cannot be dropped (of cudaMalloc, or a CUDA IPC handle) stays and is counted.
// Thread-safe. Cost: some driver calls per block for each drop and each restore.
#pragma once

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
  // runs before it is dropped. Either may be empty. Both may run again after a failure.
  void add(int rank, const std::byte* at, std::uint64_t bytes, std::function<Status()> refill = {},
           std::function<Status()> let_go = {});
  // Another process's memory, which that process sends as its answer to `question`.
  void add_mapped(int process, const MemoryNote::Question& question, const std::byte* at);

  Status drop();
  Status bring_back();
  // Restores mapped memory; handle_of() requests it from its process.
  using Ask = std::function<Result<MemoryHandle>(int process, const MemoryNote::Question&)>;
  Status bring_back_mapped(const Ask& handle_of);

  // Of the rank's own memory, dropped or not.
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
  };
  struct Mapped {
    int process;
    MemoryNote::Question question;
    std::shared_ptr<VirtualMemory> memory;
  };

  mutable std::mutex mutex_;
  std::vector<Own> own_;
  std::vector<Mapped> mapped_;
};

}  // namespace rondo::gpu
