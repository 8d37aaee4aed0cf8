// SPDX-License-Identifier: Apache-2.0
// EdgeTransport: one way to move bytes from a rank on a GPU to another one. Every edge of rings,
// trees and messages uses the first row that can connect it:
//
//   P2P      the sender writes into the receiver's device memory
//   NVLink   the same between hosts, by fabric handles (fabric_memory.h)
//   host     both use pinned memory of their host
//   network  each has pinned memory of its own, which a net proxy keeps equal (net_proxy.h)
//
// A row says where an edge's slots are, allocates that memory, and maps it in the other process.
// Guarantees: the last row connects every edge; an edge's row is a pure function of what all ranks
// agreed on. Cost: that of MemoryRegistry, or pinning, once per block.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "transport/memory/memory_handle.h"

namespace rondo::gpu {

struct EdgeFacts {
  bool same_host = true;
  bool reach = false;   // both devices use each other's memory
  bool fabric = false;  // on different hosts, in one NVLink clique
};

// Memory for edges at this process's address: on a device, or on the host (EdgeTransport::pinned).
using MappedMemory = std::shared_ptr<std::byte>;
struct EdgeMemory {
  MappedMemory memory;  // host memory is zeroed
  MemoryHandle handle;  // of no kind if others cannot map it
};

struct EdgeTransport {
  enum Home { kAtReceiver, kInFabric, kOnHost, kAtBothEnds };

  const char* name;
  Home home;
  bool pinned;  // host memory: kernels use address_on_device()
  bool (*can_connect)(const EdgeFacts& facts);
  // In the process that provides the memory; `device` is that of the rank that it is for.
  Result<EdgeMemory> (*allocate)(std::uint64_t bytes, int device);
  // In another process, whose `device` uses it.
  Result<MappedMemory> (*connect)(const MemoryHandle& handle, std::uint64_t bytes, int device);
};

const EdgeTransport& edge_transport(const EdgeFacts& facts);
const EdgeTransport& edge_transport(EdgeTransport::Home home);

}  // namespace rondo::gpu
