// Registered buffers and windows: handles that remember what the caller named.
#pragma once

#include <cstddef>
#include <vector>

#include "api/handles.h"
#include "api/nccl.h"

namespace rondo::api {

struct Registration {
  ncclComm_t comm;
  void* buffer;
  std::size_t bytes;
};

HandleTable<Registration>& registrations();  // ncclCommRegister
HandleTable<Registration>& windows();        // ncclCommWindowRegister

// Frees handles of either table.
void forget_registrations(const std::vector<void*>& handles);

}  // namespace rondo::api
