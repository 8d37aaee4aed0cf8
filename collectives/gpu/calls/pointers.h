// SPDX-License-Identifier: Apache-2.0
// Checks which buffers a communicator can use.
//
// On CUDA: memory of the rank's own device, pinned and managed memory, and any host memory that the
// device can access. On the host: anything but device memory. Other buffers are refused with the
// argument's name, before anything is enqueued. (Exception: copies of a rank that is alone,
// DeviceRank::copy_alone().) Cost: one attribute query per cudaMalloc allocation and group of
// calls, one per buffer of other kinds, none for memory of ncclMemAlloc or ncclCommRegister. (Query
// results are kept for one group only: nothing reports when memory is freed. A group's buffers must
// not be freed while it is enqueued.)
#pragma once

#include <array>
#include <cstddef>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/context/call.h"

namespace rondo::gpu {

// Checks the buffers of a rank's calls of one group.
class BufferAddresses {
 public:
  // device: the rank's.
  explicit BufferAddresses(int device) : device_(device) {}

  // Address of the buffer for kernels of the device.
  Result<void*> of(const void* pointer, Collective which, const char* name);

  // Bytes from the pointer to the end of its allocation; the maximum if that is unknown: memory of
  // cudaMalloc and ncclMemAlloc is known.
  Result<std::size_t> room_at(const void* pointer);

 private:
  Result<GpuPointer> ask(const void* pointer);

  const int device_;
  std::array<GpuPointer, 4> asked_;  // allocations; the newest replaces the oldest
  std::size_t questions_ = 0;
};

// Whether the call reads `send` or writes `receive` on this rank.
bool uses_send(const Call& call, int rank);
bool uses_receive(const Call& call, int rank);

// For communicators on the host, on a machine with devices: refuses device memory.
Status check_host_call(const Call& call, int rank);

}  // namespace rondo::gpu
