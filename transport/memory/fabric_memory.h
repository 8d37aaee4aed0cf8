// SPDX-License-Identifier: Apache-2.0
// Device memory that processes of other hosts map over an NVLink fabric (MNNVL), by fabric handles
// of 64 bytes, which any message may carry.
//
// Guarantees: imported memory stays valid as long as its holder, whatever its owner does; both ends
// are unmapped only while the process has no unfinished work (deferred_free.h); if a step fails,
// all earlier ones are undone. Cost: some driver calls, once a block.
//
//   RONDO_TRY(FabricBlock block, allocate_fabric(bytes, device));  // its handle is for a peer
//   RONDO_TRY(ImportedMemory memory, import_fabric(handle, bytes, device));  // there
#pragma once

#include <cstddef>

#include "base/gpu.h"
#include "base/result.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

struct FabricBlock {
  OwnMemory memory;  // uninitialized
  GpuFabricHandle handle{};
};

// Whether the device's driver has fabric handles. They may still be refused: the process needs an
// IMEX channel.
bool has_fabric_handles(int device);

// bytes: a multiple of VirtualMemory's granularity. The device's context must be current.
Result<FabricBlock> allocate_fabric(std::size_t bytes, int device);
// bytes: of the whole block. `device` gets access.
Result<ImportedMemory> import_fabric(const GpuFabricHandle& handle, std::size_t bytes, int device);

}  // namespace rondo::gpu
