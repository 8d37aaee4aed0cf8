// GpuMemoryUse: memory that a rank on a GPU holds for its communicator, in bytes.
#pragma once

#include <cstdint>

namespace rondo::gpu {

struct GpuMemoryUse {
  std::uint64_t device = 0;     // on its device, dropped memory included
  std::uint64_t droppable = 0;  // part of it that a suspension frees
  std::uint64_t pinned = 0;     // on the host
  bool dropped = false;

  std::uint64_t on_device() const { return dropped ? device - droppable : device; }
};

}  // namespace rondo::gpu
