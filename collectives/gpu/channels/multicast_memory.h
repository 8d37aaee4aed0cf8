// MulticastMemory: memory of several devices, one rank each, that is also accessible at one address
// for all of them (NVLS), for the kernels over multicast memory (kernels/cuda/multicast.h). It is
// staging, or the program's own memory of symmetric windows.
//
// Staging is made with the communicator, if it is requested and the devices support it: by make()
// if all ranks are in one process, else in the steps below, each of which all processes take or
// none (shared_multicast.h). Windows are bound in the same way (device_windows.h). Guarantees: the
// destructor frees what was made before a step that failed, after the devices' work; device memory
// may be dropped and restored, the object and all addresses stay. Cost: 12 MiB of staging per
// device; as much address space of the switch as memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/memory/droppable_memory.h"
#include "kernels/cuda/multicast_args.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/own_memory.h"

namespace rondo::gpu {

class MulticastMemory {
 public:
  // devices: by rank, all different; -1: in another process.
  explicit MulticastMemory(std::vector<int> devices);
  ~MulticastMemory();
  MulticastMemory(const MulticastMemory&) = delete;
  MulticastMemory& operator=(const MulticastMemory&) = delete;

  // All steps; nullptr if a device or the driver does not support it, which is logged.
  static Result<std::unique_ptr<MulticastMemory>> make(std::vector<int> devices);

  // Whether this process's devices support it.
  Status can() const;
  // One process creates the object, with `bytes` of memory per device, and a handle by which the
  // others open it.
  Status create(std::size_t bytes = cuda::kMulticastStaging);
  Result<MemoryHandle> handle() const;
  Status open(const MemoryHandle& handle);
  // Adds this process's devices. All processes must do so before any process binds.
  Status add();
  // bind(): binds new memory of this process's devices, and maps it. bind_own(): the same for a
  // rank's own virtual memory, which its owner keeps.
  Status bind();
  Status bind_own(int rank, std::byte* memory);

  // Addresses for kernels of this process: a rank's own memory, if it is in this process, and all.
  std::byte* own(int rank) const { return parts_[static_cast<std::size_t>(rank)].at; }
  std::byte* all() const { return all_; }

  void list_in(DroppableMemory& droppable);
  // Kernels of other processes may run for this long while they are being stopped; the memory that
  // they use is not freed earlier.
  static constexpr std::chrono::seconds kOthersEnd{2};
  void keep_for(std::chrono::milliseconds time) { kept_for_ = time; }

 private:
  struct Part {
    OwnMemory memory = nullptr;  // null: it has another owner
    std::byte* at = nullptr;
    bool bound = false;
  };

  Status bind(int rank);
  Status unbind(int rank);
  Status map();
  bool is_here(int rank) const { return devices_[static_cast<std::size_t>(rank)] >= 0; }
  int ranks() const { return static_cast<int>(devices_.size()); }

  const GpuApi& api_;
  const std::vector<int> devices_;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;  // by rank
  GpuAllocation object_ = 0;
  std::byte* all_ = nullptr;
  std::chrono::milliseconds kept_for_{0};
};

}  // namespace rondo::gpu
