// SharedBlocks: memory of this process's ranks (ncclMemAlloc'd or registered) that other processes
// of the host have mapped, and theirs that this one has, so that kernels there read and write it in
// place.
//
// The owner of a block asks the other process to map it (memory_exchange.h), and keeps the answer:
// where that process sees the block. So no process looks up another one's addresses. Guarantees:
// every question ends with its deadline; a block that ends is unmapped elsewhere, and its number is
// never used again. Safe from any thread; two processes may ask each other at once. Cost: a round
// trip a block and process, once; the other one's watch thread maps it while its kernels run.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "collectives/gpu/memory_exchange.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class SharedBlocks final : public MemoryRegistry::Listener {
 public:
  // devices: of this process, that are to reach others' blocks. process_of: by rank.
  SharedBlocks(MemoryExchange& exchange, std::vector<int> devices, int process,
               std::vector<int> process_of);
  ~SharedBlocks() override;

  // Where the first GPU of `process` sees memory of this one, or 0 where it cannot, or where no
  // block holds it; nothing where it has not been asked yet.
  std::optional<std::uint64_t> known_in(int process, const void* pointer, std::size_t bytes) const;
  // The same; asks.
  Result<std::uint64_t> address_in(int process, const void* pointer, std::size_t bytes,
                                   const net::Deadline& deadline);
  // The same of every process, and of all of its GPUs.
  Status addresses_in_all(const void* pointer, std::size_t bytes, const net::Deadline& deadline,
                          std::span<std::uint64_t> by_process);
  void block_ends(std::uint64_t number) override;

  // The answer to kMap and kUnmap.
  Result<MemoryHandle> answer(MemoryNote& asked, const MemoryHandle& with);

 private:
  using Key = std::tuple<std::uint64_t, std::byte*, int>;  // number, base, process
  struct Seen {
    std::uint64_t at = 0;       // where the block begins there; 0: it cannot be seen
    bool by_first_gpu = false;  // and by no other: CUDA IPC opens it for one
  };
  Result<Seen> ask(int process, const MemoryBlock& block, const net::Deadline& deadline);

  MemoryExchange& exchange_;
  const std::vector<int> devices_;
  const int process_;
  const std::vector<int> process_of_;
  mutable std::mutex mutex_;
  std::map<Key, Seen> seen_;
  std::mutex imported_mutex_;  // never held while another process is asked
  std::multimap<std::uint64_t, ImportedMemory> imported_;  // of others, by address
};

}  // namespace rondo::gpu
