// MulticastStaging: memory of several devices of this process that is also reached at one address
// for all of them (NVLS), for the kernels over multicast memory (kernels/cuda/multicast.h).
//
// Made once, with the communicator, where it is asked for and the devices can. Guarantees: in place
// when make() returns, or nothing is left behind; freed by the destructor, after the devices' work.
// Cost: 2 MiB of memory and of multicast address space a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "kernels/cuda/multicast_args.h"

namespace rondo::gpu {

class MulticastStaging {
 public:
  // Different devices; places are their indexes. nullptr where a device or the driver cannot.
  static Result<std::unique_ptr<MulticastStaging>> make(std::vector<int> devices);
  ~MulticastStaging();
  MulticastStaging(const MulticastStaging&) = delete;
  MulticastStaging& operator=(const MulticastStaging&) = delete;

  std::byte* own(int place) const { return parts_[static_cast<std::size_t>(place)].address; }
  std::byte* all() const { return all_; }

 private:
  struct Part {
    GpuAllocation memory = 0;
    std::byte* address = nullptr;
    bool bound = false;
  };

  explicit MulticastStaging(std::vector<int> devices);
  Result<std::byte*> map(GpuAllocation memory);
  Done open();

  const GpuApi& api_;
  const std::vector<int> devices_;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;  // by place
  GpuAllocation object_ = 0;
  std::byte* all_ = nullptr;
};

}  // namespace rondo::gpu
