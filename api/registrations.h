// Registered buffers and windows: handles that remember what the caller named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/comm.h"
#include "api/handles.h"
#include "api/nccl.h"
#include "base/result.h"

namespace rondo::api {

struct Registration {
  ncclComm_t comm;
  void* buffer;
  std::size_t bytes;
  int number = -1;          // of a window, in the engine
  std::uint64_t block = 0;  // device memory that processes of its GPU may map; 0: none
  ~Registration();
};
// The block of a buffer that is registered with a communicator on a device.
std::uint64_t register_block(const Comm& comm, void* buffer, std::size_t bytes);

HandleTable<Registration>& registrations();  // ncclCommRegister
HandleTable<Registration>& windows();        // ncclCommWindowRegister

// A window of this communicator, or an error.
Result<HandleTable<Registration>::Pin> find_window(ncclComm_t comm, ncclWindow_t window,
                                                   const char* function);

// Frees handles of either table.
void forget_registrations(const std::vector<void*>& handles);

}  // namespace rondo::api
