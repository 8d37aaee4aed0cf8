// EdgeTransport: one way for bytes to come from a rank on a GPU to another one. The rows are asked
// in turn for every edge: rings, trees and messages alike.
//
//   P2P      the sender writes into the receiver's device memory
//   host     both use pinned memory of their host
//   network  each has pinned memory of its own, which a net proxy keeps alike (net_proxy.h)
//
// A row says where an edge's slots lie, makes that memory, and maps it in the other process.
// Guarantees: the last row serves every edge; which one an edge gets is a pure function of what all
// ranks agreed on. Cost: MemoryRegistry's, or pinning, once a block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "transport/memory/memory_handle.h"

namespace rondo::gpu {

struct EdgeFacts {
  bool same_host = true;
  bool reach = false;  // both devices use each other's memory
};

// Memory for edges as this process sees it: on a device, or on the host (EdgeTransport::pinned).
using MappedMemory = std::shared_ptr<std::byte>;
struct EdgeMemory {
  MappedMemory memory;  // of the host: zeroed
  MemoryHandle handle;  // of no kind where others cannot map it
};

struct EdgeTransport {
  enum Home { kAtReceiver, kOnHost, kAtBothEnds };

  const char* name;
  Home home;
  bool pinned;  // memory of the host: address_on_device() is what kernels use
  bool (*can_connect)(const EdgeFacts& facts);
  // By the process that gives the memory; `device` is of the rank for which it is.
  Result<EdgeMemory> (*allocate)(std::uint64_t bytes, int device);
  // By others, whose `devices` will use it; the first is current where there is only one mapping.
  Result<MappedMemory> (*connect)(const MemoryHandle& handle, std::uint64_t bytes,
                                  std::span<const int> devices);
};

const EdgeTransport& edge_transport(const EdgeFacts& facts);
const EdgeTransport& edge_transport(EdgeTransport::Home home);

}  // namespace rondo::gpu
