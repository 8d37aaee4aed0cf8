// SPDX-License-Identifier: Apache-2.0
// SharedBlocks: memory of this process's ranks (ncclMemAlloc'd or registered) that other processes
// of the host have mapped, and memory of theirs that this process has mapped. Kernels there read
// and write it in place.
//
// The owner of a block asks the other process to map it (memory_exchange.h) and keeps the answer:
// the block's address in that process. So no process looks up another one's addresses.
//
// A block ends when its rank deregisters or frees it, after its own calls on it. The other process
// unmaps it as soon as the calls that run there at that time have finished; other work, also of
// this communicator, may go on. Memory that CUDA IPC opened is closed once that process has no
// unfinished work (deferred_free.h); the owner waits for it for at most a second. After a fault a
// kernel may still access a block that has ended: it is unmapped once the process has no unfinished
// work. Guarantees: every request ends with its deadline; the number of a block is never used
// again. Thread-safe; two processes may ask each other at once. Cost: a round trip per block and
// process, twice; the other process's watch thread maps and unmaps while its kernels run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "collectives/gpu/agree/memory_exchange.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class SharedBlocks final : public MemoryRegistry::Listener {
 public:
  // Whether calls that ran at some time have finished.
  enum class State { kRun, kOver, kFaulted };
  using Calls = std::function<State()>;

  // device: of this process, which must reach others' blocks. running: returns the calls that run
  // now.
  SharedBlocks(MemoryExchange& exchange, int device, int process, std::function<Calls()> running);
  ~SharedBlocks() override;

  // Address of this process's memory for the GPU of `process`; 0 if it has no access or no
  // block holds the memory; nullopt if the process has not been asked yet.
  std::optional<std::uint64_t> known_in(int process, const void* pointer, std::size_t bytes) const;
  // The same, but asks.
  Result<std::uint64_t> address_in(int process, const void* pointer, std::size_t bytes,
                                   const net::Deadline& deadline);
  bool block_ends(std::uint64_t number) override;

  // The answer to kMap and kUnmap; nullopt: not yet.
  std::optional<Result<MemoryHandle>> answer(MemoryNote& asked, const MemoryHandle& with);
  // Unmaps blocks that have ended and are not in use any more. True if some are.
  bool unmap_ended();

 private:
  using Key = std::tuple<std::uint64_t, std::byte*, int>;  // number, base, process
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
  Result<Seen> ask(int process, const MemoryBlock& block, const net::Deadline& deadline);
  Result<MemoryHandle> map(MemoryNote& asked, const MemoryHandle& with);
  std::optional<Result<MemoryHandle>> unmap(std::uint64_t at);
  bool give_up_unused();  // called with imported_mutex_ held

  MemoryExchange& exchange_;
  const int device_;
  const int process_;
  const std::function<Calls()> running_;
  mutable std::mutex mutex_;
  std::map<Key, Seen> seen_;
  std::mutex imported_mutex_;                        // never held while another process is asked
  std::multimap<std::uint64_t, Imported> imported_;  // by address
  std::vector<Ended> ended_;
};

}  // namespace rondo::gpu
