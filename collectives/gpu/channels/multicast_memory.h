// SPDX-License-Identifier: Apache-2.0
// MulticastMemory: memory of several devices, one rank each, that is also accessible at one address
// for all of them (NVLS), for the kernels over multicast memory (kernels/cuda/multicast.h). It is
// staging, or the program's own memory of symmetric windows.
//
// Staging is made with the communicator, if it is requested and the devices support it, in the
// steps below, each of which all ranks take or none (share_multicast()). Windows are bound in the
// same way (device_windows.h). Guarantees: the
// destructor frees what was made before a step that failed, after the devices' work; device memory
// may be dropped and restored, the object and all addresses stay. Cost: 12 MiB of staging per
// device; as much address space of the switch as memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "kernels/cuda/multicast_args.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/own_memory.h"

namespace rondo::gpu {

class DeviceMemory;

class MulticastMemory {
 public:
  // ranks: on different devices. rank: the one that this object is for, and its device.
  MulticastMemory(int ranks, int rank, int device);
  ~MulticastMemory();
  MulticastMemory(const MulticastMemory&) = delete;
  MulticastMemory& operator=(const MulticastMemory&) = delete;

  // Whether the device supports it.
  Status can() const;
  // One rank creates the object, with `bytes` of memory per device, and a handle by which the
  // others open it.
  Status create(std::size_t bytes = cuda::kMulticastStaging);
  Result<MemoryHandle> handle() const;
  Status open(const MemoryHandle& handle);
  // Adds the device. All ranks must do so before any rank binds.
  Status add();
  // bind(): binds new memory of the device, and maps it. bind_own(): the same for virtual memory
  // that its owner keeps.
  Status bind();
  Status bind_own(std::byte* memory);

  // Addresses for the device's kernels: the rank's own memory, and all.
  std::byte* own() const { return own_; }
  std::byte* all() const { return all_; }

  void list_in(DeviceMemory& all);
  // Kernels of other processes may run for this long while they are being stopped; the memory that
  // they use is not freed earlier.
  static constexpr std::chrono::seconds kOthersEnd{2};
  void keep_for(std::chrono::milliseconds time) { kept_for_ = time; }

 private:
  Status bind_again();
  Status unbind();
  Status map();

  const GpuApi& api_;
  const int ranks_, rank_, device_;
  std::size_t bytes_ = 0;
  OwnMemory memory_ = nullptr;  // null: it has another owner
  std::byte* own_ = nullptr;
  bool is_bound_ = false;
  GpuAllocation object_ = 0;
  std::byte* all_ = nullptr;
  std::chrono::milliseconds kept_for_{0};
};

// Multicast memory of all ranks of a host: the leader's process makes the object and sends its
// descriptor to the others; each adds its device and binds its memory. device: of this process,
// which has one rank. nullptr: there is none.
//
// Collective over a communicator's processes, by the sockets between them and the leader's. If a
// rank cannot take a step (its device, its driver, no room in the switch, no descriptors), all
// continue without, and each one's log says which rank and why. Guarantees: every wait ends with
// the deadline; only that, or a process's end, is an error. Cost: seven messages per process.
Result<std::unique_ptr<MulticastMemory>> share_multicast(const ProcessPeers& peers, int device);

}  // namespace rondo::gpu
