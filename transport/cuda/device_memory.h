// Device memory for ncclMemAlloc: shareable (a file descriptor can be made of it) where the driver
// can, plain cudaMalloc otherwise. And the list of all memory that may be shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"

namespace rondo::gpu {

Result<void*> allocate_shareable(std::size_t bytes, int device);
// Whether the pointer came from allocate_shareable(); then it is freed and `freed` says how.
bool free_shareable(void* pointer, Done* freed);

// Memory that other processes may map: from allocate_shareable(), or registered by the program. The
// number is never used twice, addresses may be.
struct ShareableBlock {
  std::uint64_t number = 0;
  std::byte* base = nullptr;
  std::size_t bytes = 0;
};
// The block that holds [pointer, pointer + bytes).
std::optional<ShareableBlock> find_shareable(const void* pointer, std::size_t bytes);
std::uint64_t register_shareable(void* pointer, std::size_t bytes);  // its number
void deregister_shareable(std::uint64_t number);

// Whoever has mapped blocks elsewhere hears which of them end, before their memory goes.
class BlockListener {
 public:
  BlockListener();
  virtual ~BlockListener();
  BlockListener(const BlockListener&) = delete;
  BlockListener& operator=(const BlockListener&) = delete;
  virtual void block_ends(std::uint64_t number) = 0;
};

}  // namespace rondo::gpu
