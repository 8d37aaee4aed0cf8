// DeviceBarriers: counters by which kernels of devices that reach each other synchronize
// (kernels/cuda/device_barrier.h).
//
// Made once per communicator. Guarantees: zeroed when make() returns; the memory outlives all
// kernels that use it (own_memory.h). Cost: one allocation of 5 KiB per device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "kernels/cuda/direct_args.h"
#include "transport/memory/own_memory.h"

namespace rondo::gpu {

class DeviceBarriers {
 public:
  // Different devices with access to each other enabled, at most kMaxBarrierDevices. A place is an
  // index into them.
  static Result<std::unique_ptr<DeviceBarriers>> make(std::vector<int> devices);
  DeviceBarriers(const DeviceBarriers&) = delete;
  DeviceBarriers& operator=(const DeviceBarriers&) = delete;

  int devices() const { return static_cast<int>(devices_.size()); }
  cuda::DeviceBarrier barrier(int place) const;  // words and placement; the call sets the rest

 private:
  explicit DeviceBarriers(std::vector<int> devices);
  Status allocate(int place);
  std::uint64_t* words(int place, int first) const {
    return reinterpret_cast<std::uint64_t*>(memory_[static_cast<std::size_t>(place)].get()) + first;
  }

  const GpuApi& api_;
  const std::vector<int> devices_;
  std::vector<OwnMemory> memory_;  // by place
};

}  // namespace rondo::gpu
