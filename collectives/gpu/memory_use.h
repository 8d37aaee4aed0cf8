// GpuMemoryUse: what a rank on a GPU holds for its communicator, in bytes.
#pragma once

#include <cstdint>

namespace rondo::gpu {

struct GpuMemoryUse {
  std::uint64_t device = 0;     // of its device, unless it was dropped
  std::uint64_t droppable = 0;  // of that, what a suspension gives back
  std::uint64_t pinned = 0;     // of the host
  bool dropped = false;

  std::uint64_t on_device() const { return dropped ? device - droppable : device; }
};

}  // namespace rondo::gpu
