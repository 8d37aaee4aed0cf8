// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/pinned_file.h"

#include <cassert>

#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"
#include "transport/memory/own_memory.h"
#include "transport/shm/memfd.h"

namespace rondo::gpu {

Result<std::shared_ptr<std::byte>> map_pinned(int file, std::size_t bytes, const char* what) {
  assert(file >= 0 && bytes > 0);
  RONDO_TRY(shm::Mapping mapping, shm::map_received(file, bytes));
  RONDO_CHECK_OK(shm::commit(mapping.data(), bytes, what));
  RONDO_CHECK_OK(check(gpu_api()->register_host(mapping.data(), bytes, kHostPortable | kHostMapped),
                       "cudaHostRegister of memory that processes share (is ulimit -l too low?)"));
  struct Pinned {
    ~Pinned() { gpu_api()->unregister_host(mapping.data()); }
    shm::Mapping mapping;
  };
  const std::shared_ptr<Pinned> pinned(new Pinned{std::move(mapping)}, [](Pinned* unused) {
    free_when_idle([unused] { delete unused; });
  });
  return std::shared_ptr<std::byte>(pinned, pinned->mapping.data());
}

Result<std::byte*> address_on_device(const std::shared_ptr<std::byte>& pinned) {
  void* at = nullptr;
  RONDO_CHECK_OK(
      check(gpu_api()->host_device_pointer(&at, pinned.get()), "cudaHostGetDevicePointer"));
  return static_cast<std::byte*>(at);
}

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
