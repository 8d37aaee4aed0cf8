// GpuRank: the communicator's interface to its rank on a CUDA device.
//
// The implementation (device_rank.h) exists only in builds with CUDA or the emulated GPU. In other
// builds no rank is on a device, and absent.cc replaces the entry points. Guarantees:
// device_rank.h. Cost: one virtual call.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "collectives/call.h"
#include "collectives/gpu/memory_use.h"

namespace rondo {
class Communicator;
}

namespace rondo::gpu {

class GpuRank {
 public:
  virtual ~GpuRank() = default;

  virtual double predicted_ns(const CallRecord& record) const = 0;
  virtual GpuMemoryUse memory() const = 0;
  virtual Status suspend() = 0;
  virtual Status resume() = 0;
  virtual bool adopt_kernel_fault() = 0;  // true if a kernel of this rank has given up

  // Collective; returns the window's number.
  virtual Result<int> open_window(Communicator& self, void* memory, std::size_t bytes,
                                  bool symmetric) = 0;
  virtual void close_window(int window) = 0;
  virtual std::size_t window_bytes(int window, int peer) const = 0;

  // report(): handles a control message from a rank on another host. gone(): one of the remote
  // ranks that are known to be gone, or -1.
  virtual void report(int peer, std::span<const std::byte> message) = 0;
  virtual int gone() const = 0;
  // Before the rank reports that it leaves: completes what its streams have requested of the host.
  virtual void close() = 0;
};

}  // namespace rondo::gpu
