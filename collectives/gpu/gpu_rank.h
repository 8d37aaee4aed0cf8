// GpuRank: what the communicator asks of its rank on a CUDA device.
//
// The engine behind it (device_rank.h) is part of builds with CUDA or the emulated GPU only. In
// other builds no rank lives on a device: absent.cc stands in for the engine's entry points.
// Guarantees: device_rank.h. Cost: one virtual call.
#pragma once

#include <array>
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
  // Communicators of which calls are composed (DeviceRank::set_parts); null where there are none.
  virtual std::array<Communicator*, 2> parts() const = 0;
  virtual bool adopt_kernel_fault() = 0;  // true if a kernel of this rank has given up

  // Collective; the window's number.
  virtual Result<int> open_window(Communicator& self, void* memory, std::size_t bytes,
                                  bool symmetric) = 0;
  virtual void close_window(int window) = 0;
  virtual std::size_t window_bytes(int window, int peer) const = 0;
  // What peers may map (in_place_calls.h).
  virtual void register_memory(const void* memory, std::size_t bytes) = 0;

  // A control message of a rank on another host; one of those that is known to be gone, or -1.
  virtual void report(int peer, std::span<const std::byte> message) = 0;
  virtual int gone() const = 0;
  // Before the rank says that it leaves: what its streams have asked of the host is done.
  virtual void close() = 0;
};

}  // namespace rondo::gpu
