// SPDX-License-Identifier: Apache-2.0
// Registered buffers and windows: their handles and records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/handles.h"
#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

struct Registration {
  ncclComm_t comm;
  void* buffer;
  std::size_t bytes;
  int number = -1;          // the engine's number of a window; -1: a buffer
  std::uint64_t block = 0;  // its number in gpu::memory_registry(), which peers map; 0: none
  ~Registration();
};

HandleTable<Registration>& registrations();  // ncclCommRegister
HandleTable<Registration>& windows();        // ncclCommWindowRegister

// An error if the window does not belong to this communicator.
Result<HandleTable<Registration>::Pin> find_window(ncclComm_t comm, ncclWindow_t window,
                                                   const char* function);

// Frees handles of either table.
void forget_registrations(const std::vector<void*>& handles);

}  // namespace rondo::api
