// Which addresses a communicator may be given.
//
// On CUDA: memory of the rank's own device, pinned and managed memory, and any host memory where
// the device reaches that. On the host: anything but device memory. What cannot be reached is
// refused with the argument's name, before anything is enqueued. Cost: one attribute query per
// buffer, and none for memory of ncclMemAlloc or of ncclCommRegister. (Other attributes cannot be
// kept: nobody says when memory ends.)
#pragma once

#include "base/result.h"
#include "collectives/call.h"

namespace rondo::gpu {

// The address at which kernels of `device` (the current one) see the buffer. own_access: set where
// the memory has an access list of its own (GpuPointer).
Result<void*> device_address(const void* pointer, int device, Collective which, const char* name,
                             bool* own_access = nullptr);

// Whether the call reads `send` or writes `receive` on this rank.
bool uses_send(const Call& call, int rank);
bool uses_receive(const Call& call, int rank);

// For communicators on the host, where there are devices too: refuses device memory.
Done check_host_call(const Call& call, int rank);

}  // namespace rondo::gpu
