// SPDX-License-Identifier: Apache-2.0
// SharedBlocks: memory of this process's ranks (ncclMemAlloc'd or registered) that the leader, the
// process of rank 0, has mapped; in the leader, memory of all others that it has mapped. Its
// kernels read and write it in place.
//
// The owner of a block asks the leader to map it (process_meeting.h) and keeps the answer: the
// block's address there. So no process looks up another one's addresses.
//
// A block ends when its rank deregisters or frees it, after its own calls on it. The leader unmaps
// it as soon as the calls that run there at that time have finished; other work, also of this
// communicator, may go on. Memory that CUDA IPC opened is closed once the leader has no unfinished
// work (deferred_free.h); the owner waits for it for at most a second. After a fault a kernel may
// still access a block that has ended: it is unmapped once the leader has no unfinished work.
// Guarantees: every request ends with its deadline; the number of a block is never used again.
// Thread-safe. Cost: a round trip per block, twice; the leader's watch thread maps and unmaps while
// its kernels run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/gpu/agree/process_meeting.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class SharedBlocks final : public MemoryRegistry::Listener {
 public:
  // Whether calls that ran at some time have finished.
  enum class State { kRun, kOver, kFaulted };
  using Calls = std::function<State()>;

  // device: of this process; the leader's must reach others' blocks. running: returns the calls
  // that run now.
  SharedBlocks(MemoryExchange& exchange, int device, int process, std::function<Calls()> running);
  ~SharedBlocks() override;

  // Address of this process's memory for the leader's GPU; 0 if it has no access or no block holds
  // the memory. deadline: to ask the leader, the first time.
  Result<std::uint64_t> at_leader(const void* pointer, std::size_t bytes,
                                  const std::function<net::Deadline()>& deadline);
  bool block_ends(std::uint64_t number) override;

  // The answer to kMap and kUnmap; nullopt: not yet.
  std::optional<Result<MemoryHandle>> answer(MemoryNote& asked, const MemoryHandle& with);
  // Unmaps blocks that have ended and are not in use any more. True if some are.
  bool unmap_ended();

 private:
  using Key = std::pair<std::uint64_t, std::byte*>;  // number, base
  struct Seen {
    std::uint64_t at = 0;       // start of the block there; 0: no access
    bool by_first_gpu = false;  // and for no other: CUDA IPC opens it for one
  };
  struct Imported {
    ImportedMemory memory;  // of another process
    bool by_ipc;
  };
  // A block of another process that has ended.
  struct Ended {
    std::uint64_t at = 0;
    ImportedMemory memory;  // null: given up
    Calls calls;            // that ran when it ended
    bool is_asked = false;  // its owner waits for the answer
    std::weak_ptr<const bool> open;
    std::chrono::steady_clock::time_point answer_by;
  };
  Result<Seen> ask(const MemoryBlock& block, const net::Deadline& deadline);
  Result<MemoryHandle> map(MemoryNote& asked, const MemoryHandle& with);
  std::optional<Result<MemoryHandle>> unmap(std::uint64_t at);
  bool give_up_unused();  // called with imported_mutex_ held

  MemoryExchange& exchange_;
  const int device_;
  const bool leads_;
  const std::function<Calls()> running_;
  std::mutex mutex_;
  std::map<Key, Seen> seen_;
  std::mutex imported_mutex_;                        // never held while another process is asked
  std::multimap<std::uint64_t, Imported> imported_;  // by address
  std::vector<Ended> ended_;
};

}  // namespace rondo::gpu
