// SPDX-License-Identifier: Apache-2.0
// PackedMemory: small blocks of device memory of this process for other processes to map.
//
// Memory that other processes can map is a multiple of 2 MiB. Blocks of one device share an
// allocation here, so communicators whose words need little do not take 2 MiB each. Guarantees: a
// block is whole lines of 128 bytes; no memory is given out twice, since a process may still write
// to the block of a communicator that has ended. An allocation is freed as MemoryRegistry's, once
// all its blocks are. Thread-safe. Cost: that of an allocation for about every sixth block.
//
//   RONDO_TRY(OwnMemory block, packed_memory().take(bytes, device));
//   RONDO_TRY(auto exported, PackedMemory::export_block(block));  // for a peer; there:
//   RONDO_TRY(auto mapped, PackedMemory::import_block(exported.handle, exported.offset, device));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

class PackedMemory {
 public:
  static constexpr std::size_t kMaxBytes = 1 << 20;  // of a block

  Result<OwnMemory> take(std::size_t bytes, int device);

  // The allocation of a block, and where the block begins in it.
  struct Exported {
    MemoryHandle handle;
    std::uint64_t offset = 0;
  };
  static Result<Exported> export_block(const OwnMemory& block);
  static Result<ImportedMemory> import_block(const MemoryHandle& handle, std::uint64_t offset,
                                             int device);

 private:
  struct Allocation {
    std::weak_ptr<std::byte> memory;
    std::size_t used = 0;
  };
  std::mutex mutex_;
  std::map<int, Allocation> newest_;  // by device
};

PackedMemory& packed_memory();  // one per process

}  // namespace rondo::gpu
