// SharedBlocks: memory of this process's ranks (ncclMemAlloc'd or registered) that other processes
// of the host have mapped, and memory of theirs that this process has mapped. Kernels there read
// and write it in place.
//
// The owner of a block asks the other process to map it (memory_exchange.h) and keeps the answer:
// the block's address in that process. So no process looks up another one's addresses. Guarantees:
// every request ends with its deadline; a block that ends is unmapped elsewhere, and its number is
// never used again. Thread-safe; two processes may ask each other at once. Cost: a round trip per
// block and process, once; the other process's watch thread maps the block while its kernels run.
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
  // devices: those of this process, which must reach others' blocks. process_of: by rank.
  SharedBlocks(MemoryExchange& exchange, std::vector<int> devices, int process,
               std::vector<int> process_of);
  ~SharedBlocks() override;

  // Address of this process's memory for the first GPU of `process`; 0 if it has no access or no
  // block holds the memory; nullopt if the process has not been asked yet.
  std::optional<std::uint64_t> known_in(int process, const void* pointer, std::size_t bytes) const;
  // The same, but asks.
  Result<std::uint64_t> address_in(int process, const void* pointer, std::size_t bytes,
                                   const net::Deadline& deadline);
  // The same for every process, and for all of its GPUs.
  Status addresses_in_all(const void* pointer, std::size_t bytes, const net::Deadline& deadline,
                          std::span<std::uint64_t> by_process);
  void block_ends(std::uint64_t number) override;

  // The answer to kMap and kUnmap.
  Result<MemoryHandle> answer(MemoryNote& asked, const MemoryHandle& with);

 private:
  using Key = std::tuple<std::uint64_t, std::byte*, int>;  // number, base, process
  struct Seen {
    std::uint64_t at = 0;       // start of the block there; 0: no access
    bool by_first_gpu = false;  // and for no other: CUDA IPC opens it for one
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
