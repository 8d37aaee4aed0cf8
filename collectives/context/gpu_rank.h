// SPDX-License-Identifier: Apache-2.0
// GpuRank: the communicator's interface to its rank on a CUDA device.
//
// The implementation (device_rank.h) exists only in builds with CUDA or the emulated GPU. In other
// builds no rank is on a device, and absent.cc replaces the entry points. Guarantees:
// device_rank.h. Cost: one virtual call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/context/call.h"
#include "collectives/context/device_comm.h"

namespace rondo::gpu {

// Memory that a rank on a GPU holds for its communicator, in bytes.
struct GpuMemoryUse {
  std::uint64_t device = 0;     // on its device, dropped memory included
  std::uint64_t droppable = 0;  // part of it that a suspension frees
  std::uint64_t pinned = 0;     // on the host
  bool dropped = false;

  std::uint64_t on_device() const { return dropped ? device - droppable : device; }
};

// Gives this rank's bytes to all ranks of the communicator and returns those of all, by rank.
// Collective.
using Exchange =
    std::function<Result<std::vector<std::vector<std::byte>>>(std::span<const std::byte> mine)>;

// NCCL's device API (device_comms.h in collectives/gpu/rank).
class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual bool has_multicast() const = 0;
  // Address of the window's record, which kernels read; null: too many windows.
  virtual void* record_of(int window) = 0;
  // Collective.
  virtual Result<DeviceComm> create(const Exchange& exchange, const DeviceCommRequest& request) = 0;
  // Not collective. The window that create() gave; no kernel may use it any more.
  virtual Status destroy(const void* resource_window) = 0;
  // Address for kernels of this rank's device: of a window of a rank of the Lsa team, or of all
  // ranks' windows in multicast memory.
  static constexpr int kMulticast = -1;
  virtual Result<std::byte*> address_of(int window, int lsa_rank, std::uint64_t offset) const = 0;
};

class GpuRank {
 public:
  virtual ~GpuRank() = default;

  virtual double predicted_ns(const CallRecord& record) const = 0;
  virtual GpuMemoryUse memory() const = 0;
  virtual Status suspend() = 0;
  virtual Status resume() = 0;
  virtual int reach_team() const = 0;     // ranks of a team (reach_team.h)
  virtual bool adopt_kernel_fault() = 0;  // true if a kernel of this rank has given up
  // Whether kernels of all ranks move messages, so that a call may have its counts in device
  // memory. Equal on all ranks.
  virtual bool may_count_on_device() const = 0;

  // Collective; returns the window's number.
  virtual Result<int> open_window(const Exchange& exchange, void* memory, std::size_t bytes,
                                  bool symmetric) = 0;
  virtual void close_window(int window) = 0;
  virtual std::size_t window_bytes(int window, int peer) const = 0;

  // For kernels of NCCL's device API; null: the driver cannot map memory by address.
  virtual DeviceApi* device_api() = 0;

  // report(): handles a control message from a rank on another host. gone(): one of the remote
  // ranks that are known to be gone, or -1.
  virtual void report(int peer, std::span<const std::byte> message) = 0;
  virtual int gone() const = 0;
  // Before the rank reports that it leaves: completes what its streams have requested of the host.
  virtual void close() = 0;
};

}  // namespace rondo::gpu
