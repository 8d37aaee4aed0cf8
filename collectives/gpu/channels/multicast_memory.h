// MulticastMemory: memory of several devices, a rank each, that is also reached at one address for
// all of them (NVLS), for the kernels over multicast memory (kernels/cuda/multicast.h): staging, or
// the program's own, of symmetric windows.
//
// Staging is made with the communicator, where it is asked for and the devices can: by make() where
// all ranks are of one process, else in the steps below, each of which all processes take or none
// (shared_multicast.h); windows are bound in the same way (device_windows.h). Guarantees:
// what was made before a step that failed is given back by the destructor, after the devices' work;
// what lies in a device's memory may be dropped and comes back, the object and all addresses stay.
// Cost: 12 MiB of staging a device; as much address space of the switch as memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/droppable_memory.h"
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

  // All steps; nullptr where a device or the driver cannot, which the log says.
  static Result<std::unique_ptr<MulticastMemory>> make(std::vector<int> devices);

  // Whether the devices here can at all.
  Status can() const;
  // One process makes the object, of so much memory a device, and a handle for the others, which
  // they open.
  Status create(std::size_t bytes = cuda::kMulticastStaging);
  Result<MemoryHandle> handle() const;
  Status open(const MemoryHandle& handle);
  // Its devices take part. All must, before any process binds.
  Status add();
  // New memory of the devices here becomes part of it, and it is mapped; or a rank's own, of
  // virtual memory, which stays its owner's.
  Status bind();
  Status bind_own(int rank, std::byte* memory);

  // As kernels of this process see it: a rank's own, where it is of this process, and all.
  std::byte* own(int rank) const { return parts_[static_cast<std::size_t>(rank)].at; }
  std::byte* all() const { return all_; }

  void list_in(DroppableMemory& droppable);
  // Kernels of other processes may go on for so long, since they are being stopped: what they touch
  // is not taken from them before.
  static constexpr std::chrono::seconds kOthersEnd{2};
  void keep_for(std::chrono::milliseconds time) { kept_for_ = time; }

 private:
  struct Part {
    OwnMemory memory = nullptr;  // null: it is somebody else's
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
