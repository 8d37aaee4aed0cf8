// Which addresses a communicator may be given.
//
// On CUDA: memory of the rank's own device, pinned and managed memory, and any host memory where
// the device reaches that. On the host: anything but device memory. What cannot be reached is
// refused with the argument's name, before anything is enqueued. Cost: one attribute query per
// allocation of cudaMalloc and group of calls, one per buffer elsewhere, and none for memory of
// ncclMemAlloc or of ncclCommRegister. (Other attributes cannot be kept for longer: nobody says
// when memory ends. While a group is enqueued, its buffers must not end.)
#pragma once

#include <array>
#include <cstddef>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/call.h"

namespace rondo::gpu {

// Of the buffers of a rank's calls of one group.
class BufferAddresses {
 public:
  // device: the rank's.
  explicit BufferAddresses(int device) : device_(device) {}

  // The address at which kernels of the device see the buffer. own_access: set where the memory has
  // an access list of its own (GpuPointer).
  Result<void*> of(const void* pointer, Collective which, const char* name,
                   bool* own_access = nullptr);

 private:
  Result<GpuPointer> ask(const void* pointer);

  const int device_;
  std::array<GpuPointer, 4> asked_;  // allocations, the newest in place of the oldest
  std::size_t questions_ = 0;
};

// Whether the call reads `send` or writes `receive` on this rank.
bool uses_send(const Call& call, int rank);
bool uses_receive(const Call& call, int rank);

// For communicators on the host, where there are devices too: refuses device memory.
Status check_host_call(const Call& call, int rank);

}  // namespace rondo::gpu
