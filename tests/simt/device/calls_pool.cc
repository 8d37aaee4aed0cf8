// SPDX-License-Identifier: Apache-2.0
// Pools: stream-ordered memory with its own access list.
//
// The address is available at once. A kernel or copy may access it only between the allocation and
// the free, in stream order, and only on its own device or on one that has access to the pool.
#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {

GpuError pool_allocate(void** pointer, std::size_t bytes, GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (pointer == nullptr) return kGpuInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return kGpuSuccess;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  if (stream->capture != nullptr) return p.invalidate(*stream->capture, kGpuNotSupported);
  const int device = stream->device;
  if (!p.has_memory(device, bytes)) return kGpuOutOfMemory;
  Allocation* const made = p.take_memory(device, bytes, 0);
  if (made == nullptr) return kGpuOutOfMemory;
  made->pooled = true;
  *pointer = reinterpret_cast<void*>(made->begin);
  return p.submit_locked(*stream, {"allocation", device, [&p, made](Command& command) {
                                     command.step = [&p, made] {
                                       const std::lock_guard held(p.engine.mutex());
                                       made->access = p.who_may_touch_pool(made->device);
                                       return Step::kOver;
                                     };
                                   }});
}

GpuError pool_free(void* pointer, GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (pointer == nullptr) return kGpuSuccess;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  if (stream->capture != nullptr) return p.invalidate(*stream->capture, kGpuNotSupported);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  Allocation* const found = p.memory.find(address);
  if (found == nullptr || found->freed || found->begin != address ||
      found->kind != MemoryKind::kDevice || found->imported)
    return kGpuInvalidValue;
  return p.submit_locked(*stream, {"free", stream->device, [&p, found](Command& command) {
                                     command.step = [&p, found] {
                                       const std::lock_guard held(p.engine.mutex());
                                       if (!found->freed) p.give_back(*found);
                                       return Step::kOver;
                                     };
                                   }});
}

GpuError pool_allow(int of_owner, int of_device, bool may) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const int owner = p.device_of(of_owner), device = p.device_of(of_device);
  if (owner < 0 || device < 0) return kGpuInvalidDevice;
  if (owner == device) return may ? kGpuSuccess : kGpuInvalidValue;
  if (!p.reaches(device, owner)) return kGpuInvalidDevice;
  const std::lock_guard lock(p.engine.mutex());
  std::uint32_t& users = p.devices[static_cast<std::size_t>(owner)].pool_users;
  users = may ? users | 1u << device : users & ~(1u << device);
  p.memory.set_pool_access(owner, p.who_may_touch_pool(owner));
  return kGpuSuccess;
}

}  // namespace rondo::simt::calls
