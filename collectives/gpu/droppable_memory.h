// DroppableMemory: the device memory of a communicator in this process that ncclCommSuspend gives
// back: its addresses stay (virtual_memory.h), so that its owner lists it here when it is
// made, and need not hear of anything later.
//
// Memory that cannot be dropped (of cudaMalloc, or a CUDA IPC handle) stays, and is counted. Safe
// from any thread. Cost: some driver calls a block when it goes and when it comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/gpu/memory_exchange.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {

class DroppableMemory {
 public:
  // Of a rank of this process. `refill` makes its content when it is back; `let_go` comes before it
  // goes. Either may be empty, and both may come again after a failure.
  void add(int rank, const std::byte* at, std::uint64_t bytes, std::function<Status()> refill = {},
           std::function<Status()> let_go = {});
  // Another process's, which answers `question` with it.
  void add_mapped(int process, const MemoryExchange::Question& question, const std::byte* at);

  Status drop();
  Status bring_back();
  // What is mapped; handle_of(): asks.
  using Ask = std::function<Result<MemoryHandle>(int process, const MemoryExchange::Question&)>;
  Status bring_back_mapped(const Ask& handle_of);

  // Of the rank's own, dropped or not.
  struct Bytes {
    std::uint64_t droppable = 0, kept = 0;
  };
  Bytes bytes(int rank) const;

 private:
  struct Own {
    int rank;
    std::uint64_t bytes;
    std::shared_ptr<VirtualMemory> memory;  // null: it stays
    std::function<Status()> refill, let_go;
  };
  struct Mapped {
    int process;
    MemoryExchange::Question question;
    std::shared_ptr<VirtualMemory> memory;
  };

  mutable std::mutex mutex_;
  std::vector<Own> own_;
  std::vector<Mapped> mapped_;
};

}  // namespace rondo::gpu
