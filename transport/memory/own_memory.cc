// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/own_memory.h"

#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Result<OwnMemory> allocate_on_device(std::size_t bytes, const char* what) {
  void* at = nullptr;
  int device = 0;
  RONDO_CHECK_OK(check(gpu_api()->get_device(&device), "cudaGetDevice"));
  RONDO_CHECK_OK(check(gpu_api()->allocate(&at, bytes), what));
  return OwnMemory(static_cast<std::byte*>(at), [device](std::byte* memory) {
    free_when_idle([device, memory] {
      const DeviceScope scope(device);
      gpu_api()->free_memory(memory);
    });
  });
}

Result<OwnMemory> allocate_pinned(std::size_t bytes, const char* what) {
  void* at = nullptr;
  RONDO_CHECK_OK(check(gpu_api()->allocate_host(&at, bytes, kHostPortable | kHostMapped), what));
  return OwnMemory(static_cast<std::byte*>(at), [](std::byte* memory) {
    free_when_idle([memory] { gpu_api()->free_host(memory); });
  });
}

}  // namespace rondo::gpu
