// Handles of shared memory as they lie in the ControlSegment; their files travel beside them.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "collectives/gpu/control_segment.h"
#include "transport/cuda/shared_memory.h"

namespace rondo::gpu {

inline void put_text(RegistryRequest& request, const std::string& text) {
  const std::size_t length = std::min(text.size(), sizeof(request.text) - 1);
  std::memcpy(request.text, text.data(), length);
  request.text[length] = '\0';
}

inline void put_handle(RegistryRequest& request, const SharedHandle& handle) {
  request.bytes = handle.bytes;
  request.is_file = handle.file ? 1 : 0;
  std::memcpy(request.handle, &handle.ipc, sizeof(request.handle));
}

inline SharedHandle get_handle(const RegistryRequest& request, Fd file) {
  SharedHandle handle;
  handle.bytes = request.bytes;
  handle.file = std::move(file);
  std::memcpy(&handle.ipc, request.handle, sizeof(request.handle));
  return handle;
}

}  // namespace rondo::gpu
