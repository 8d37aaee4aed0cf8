// SPDX-License-Identifier: Apache-2.0
// Memory: allocation, registration, pointer queries.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"
#include "tests/simt/device/poison.h"

namespace rondo::simt::calls {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// CUDA allows allocation and free to wait for all work of the device, and does not require it: the
// seed decides, unless the config does.
void wait_to_allocate(std::unique_lock<std::mutex>& lock, int device) {
  Platform& p = platform();
  if (!p.config.frees_wait && p.engine.random().one_in(2)) p.wait_until_idle(lock, device);
}
void wait_to_free(std::unique_lock<std::mutex>& lock, int device) {
  Platform& p = platform();
  if (p.config.frees_wait) return p.wait_as_free(lock, device);
  if (p.engine.random().one_in(2)) p.wait_until_idle(lock, device);
}
// Any device may be using pinned memory.
void wait_to_free_host(std::unique_lock<std::mutex>& lock) {
  Platform& p = platform();
  if (!p.config.frees_wait) return wait_to_free(lock, current_device());
  for (int device = 0; device < p.config.devices; ++device) p.wait_until_idle(lock, device);
}

Allocation* find_live(const void* pointer) {
  Allocation* const found = platform().memory.find(address_of(pointer));
  return found != nullptr && !found->freed ? found : nullptr;
}

}  // namespace

GpuError allocate(void** pointer, std::size_t bytes) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (pointer == nullptr) return kGpuInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return kGpuSuccess;
  const int device = current_device();
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  wait_to_allocate(lock, device);  // what the wait frees may be enough
  if (!p.has_memory(device, bytes)) return kGpuOutOfMemory;
  const Allocation* const made = p.take_memory(device, bytes, p.who_may_touch(device));
  if (made == nullptr) return kGpuOutOfMemory;
  *pointer = reinterpret_cast<void*>(made->begin);
  return kGpuSuccess;
}

GpuError free_memory(void* pointer) {
  Platform& p = platform();
  if (pointer == nullptr) return kGpuSuccess;
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  Allocation* const found = find_live(pointer);
  if (found == nullptr || found->begin != address_of(pointer) || found->imported ||
      found->kind == MemoryKind::kPinned || found->kind == MemoryKind::kRegistered) {
    return kGpuInvalidValue;
  }
  if (found->kind == MemoryKind::kManaged) {
    wait_to_free(lock, current_device());
    p.memory.release(*found);
    munmap(found->real, found->bytes);
    return kGpuSuccess;
  }
  wait_to_free(lock, found->device);
  p.give_back(*found);
  return kGpuSuccess;
}

namespace {

GpuError allocate_on_host(void** pointer, std::size_t bytes, MemoryKind kind) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (pointer == nullptr) return kGpuInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return kGpuSuccess;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  wait_to_allocate(lock, current_device());
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kGpuOutOfMemory;
  p.memory.add_pinned(memory, bytes, kind);
  poison(static_cast<std::byte*>(memory), bytes);
  *pointer = memory;
  return kGpuSuccess;
}

}  // namespace

GpuError allocate_host(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  return allocate_on_host(pointer, bytes, MemoryKind::kPinned);
}
GpuError allocate_managed(void** pointer, std::size_t bytes) {
  return allocate_on_host(pointer, bytes, MemoryKind::kManaged);
}

GpuError free_host(void* pointer) {
  Platform& p = platform();
  if (pointer == nullptr) return kGpuSuccess;
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  Allocation* const found = find_live(pointer);
  if (found == nullptr || found->kind != MemoryKind::kPinned || found->begin != address_of(pointer))
    return kGpuInvalidValue;
  wait_to_free_host(lock);
  p.memory.release(*found);
  munmap(found->real, found->bytes);
  return kGpuSuccess;
}

GpuError register_host(void* pointer, std::size_t bytes, unsigned /*flags*/) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (pointer == nullptr || bytes == 0) return kGpuInvalidValue;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  if (p.config.registers_wait) p.wait_until_idle(lock, current_device());
  if (p.memory.find_registered(address_of(pointer)) != nullptr ||
      p.memory.find_registered(address_of(pointer) + bytes - 1) != nullptr) {
    return kGpuHostMemoryAlreadyRegistered;
  }
  p.memory.add_registered(pointer, bytes);
  return kGpuSuccess;
}

GpuError unregister_host(void* pointer) {
  constexpr GpuError kNotRegistered = 713;
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  Allocation* const found = p.memory.find_registered(address_of(pointer));
  if (found == nullptr || found->kind != MemoryKind::kRegistered ||
      found->host_alias != address_of(pointer)) {
    return kNotRegistered;
  }
  wait_to_free_host(lock);
  p.memory.release(*found);
  return kGpuSuccess;
}

GpuError host_device_pointer(void** on_device, void* on_host) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const Allocation* const found = p.memory.find_registered(address_of(on_host));
  if (found == nullptr) return kGpuInvalidValue;
  *on_device = reinterpret_cast<void*>(found->begin + (address_of(on_host) - found->host_alias));
  return kGpuSuccess;
}

GpuError pointer_info(GpuPointer* info, const void* pointer) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  *info = {};
  const Allocation* found = find_live(pointer);
  if (found == nullptr) found = p.memory.find_registered(address_of(pointer));
  const bool by_alias = found != nullptr && !found->holds(address_of(pointer), 1);
  if (found == nullptr || (by_alias && address_of(pointer) - found->host_alias >= found->bytes)) {
    info->on_host = const_cast<void*>(pointer);
    return kGpuSuccess;
  }
  const std::uint64_t offset = address_of(pointer) - (by_alias ? found->host_alias : found->begin);
  info->device = std::max(p.number_of(found->device), 0);
  info->on_device = reinterpret_cast<void*>(found->begin + offset);
  switch (found->kind) {
    case MemoryKind::kDevice:
    case MemoryKind::kMulticast:
      info->kind = GpuMemory::kDevice;
      info->own_access = found->pooled || p.shareables.contains(found->host_alias);
      if (info->own_access) return kGpuSuccess;
      info->base = reinterpret_cast<void*>(found->begin);
      info->bytes = found->bytes;
      return kGpuSuccess;
    case MemoryKind::kManaged:
      info->kind = GpuMemory::kManaged;
      break;
    case MemoryKind::kPinned:
    case MemoryKind::kRegistered:
      info->kind = GpuMemory::kHost;
  }
  info->on_host = reinterpret_cast<void*>(found->host_alias + offset);
  return kGpuSuccess;
}

GpuError may_access(bool* may, const void* pointer, int number) {
  Platform& p = platform();
  if (const GpuError error = p.trouble_without_context("cuPointerGetAttribute")) return error;
  const int device = p.device_of(number);
  if (device < 0) return kGpuInvalidDevice;
  const Allocation* const found = find_live(pointer);
  const std::lock_guard lock(p.engine.mutex());
  *may = found != nullptr &&
         ((found->pooled ? p.who_may_touch_pool(found->device) : found->access.load()) >> device &
          1) != 0;
  return kGpuSuccess;
}

GpuError address_range(void** base, std::size_t* bytes, const void* pointer) {
  if (const GpuError error = platform().trouble_without_context("cuMemGetAddressRange"))
    return error;
  const Allocation* const found = find_live(pointer);
  if (found == nullptr || !found->holds(address_of(pointer), 1)) return kGpuInvalidValue;
  if (base != nullptr) *base = reinterpret_cast<void*>(found->begin);
  if (bytes != nullptr) *bytes = found->bytes;
  return kGpuSuccess;
}

}  // namespace rondo::simt::calls
