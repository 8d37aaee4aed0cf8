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
  // devices: those of this process, which must reach others' blocks.
  SharedBlocks(MemoryExchange& exchange, std::vector<int> devices, int process);
  ~SharedBlocks() override;

  // Address of this process's memory for the first GPU of `process`; 0 if it has no access or no
  // block holds the memory; nullopt if the process has not been asked yet.
  std::optional<std::uint64_t> known_in(int process, const void* pointer, std::size_t bytes) const;
  // The same, but asks.
  Result<std::uint64_t> address_in(int process, const void* pointer, std::size_t bytes,
                                   const net::Deadline& deadline);
  void block_ends(std::uint64_t number) override;

  // The answer to kMap and kUnmap.
  Result<MemoryHandle> answer(MemoryNote& asked, const MemoryHandle& with);

 private:
  using Key = std::tuple<std::uint64_t, std::byte*, int>;  // number, base, process
  // Start of the block there; 0: no access.
  Result<std::uint64_t> ask(int process, const MemoryBlock& block, const net::Deadline& deadline);

  MemoryExchange& exchange_;
  const std::vector<int> devices_;
  const int process_;
  mutable std::mutex mutex_;
  std::map<Key, std::uint64_t> seen_;  // start of the block there
  std::mutex imported_mutex_;          // never held while another process is asked
  std::multimap<std::uint64_t, ImportedMemory> imported_;  // of others, by address
};

}  // namespace rondo::gpu
