// SPDX-License-Identifier: Apache-2.0
// Virtual memory: physical allocations, address ranges, mappings, access, file descriptors; and
// what adapters get of them.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {
namespace {

constexpr std::size_t kGranularity = 2 << 20;
constexpr const char* kName = "rondo-simt-vmm-";

void drop_reference(Platform& p, std::uint64_t id) {
  const auto found = p.shareables.find(id);
  if (--found->second.references > 0) return;
  for (const int file : {found->second.file, found->second.copied})
    if (file >= 0) close(file);
  if (found->second.counted)
    p.devices[static_cast<std::size_t>(found->second.device)].used -= found->second.bytes;
  p.shareables.erase(found);
}

// The device that owns the memory of a shared file, from its name; -1: not device memory.
int device_of(int file) {
  char text[128] = "";
  const std::string link = fmt::format("/proc/self/fd/{}", file);
  if (readlink(link.c_str(), text, sizeof text - 1) < 0) return -1;
  int device = -1;
  return std::sscanf(text, "/memfd:rondo-simt-vmm-%d", &device) == 1 ? device : -1;
}

Allocation* mapping_at(Platform& p, const void* address) {
  Allocation* const found = p.memory.find(reinterpret_cast<std::uint64_t>(address));
  return found != nullptr && !found->freed && found->imported &&
                 p.shareables.contains(found->host_alias)
             ? found
             : nullptr;
}

}  // namespace

GpuError vmm_granularity(std::size_t* bytes, int device) {
  if (platform().device_of(device) < 0) return kGpuInvalidDevice;
  *bytes = kGranularity;
  return kGpuSuccess;
}

GpuError vmm_create(GpuAllocation* allocation, std::size_t bytes, int number) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const int device = p.device_of(number);
  if (device < 0) return kGpuInvalidDevice;
  if (bytes == 0 || bytes % kGranularity != 0) return kGpuInvalidValue;
  const std::lock_guard lock(p.engine.mutex());
  if (!p.has_memory(device, bytes)) return kGpuOutOfMemory;
  const int file = memfd_create(fmt::format("{}{}", kName, device).c_str(), MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kGpuOutOfMemory;
  *allocation = p.next_id++;
  p.shareables[*allocation] = {file, bytes, device, 1, true};
  p.devices[static_cast<std::size_t>(device)].used += bytes;
  return kGpuSuccess;
}

GpuError vmm_release(GpuAllocation allocation) {
  Platform& p = platform();
  const std::lock_guard lock(p.engine.mutex());
  if (!p.shareables.contains(allocation)) return kGpuInvalidValue;
  drop_reference(p, allocation);
  return kGpuSuccess;
}

GpuError vmm_reserve(void** address, std::size_t bytes, std::size_t alignment) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  if (bytes == 0 || bytes % kGranularity != 0) return kGpuInvalidValue;
  const std::uint64_t at = p.memory.reserve(bytes, std::max(alignment, kGranularity));
  if (at == 0) return kGpuOutOfMemory;
  *address = reinterpret_cast<void*>(at);
  return kGpuSuccess;
}
GpuError vmm_unreserve(void* address, std::size_t bytes) {
  // Addresses are never reused; whatever is still mapped must be unmapped first.
  return bytes == 0 || mapping_at(platform(), address) != nullptr ? kGpuInvalidValue : kGpuSuccess;
}

GpuError vmm_map(void* address, std::size_t bytes, GpuAllocation allocation) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  const auto found = p.shareables.find(allocation);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (found == p.shareables.end() || bytes != found->second.bytes || at % kGranularity != 0 ||
      mapping_at(p, address) != nullptr) {
    return kGpuInvalidValue;
  }
  const std::shared_ptr<MulticastObject>& multicast = found->second.multicast;
  if (multicast != nullptr && !multicast->complete()) return kGpuInvalidValue;
  Allocation* const made = multicast != nullptr ? p.memory.map_multicast(at, multicast)
                                                : p.memory.map(at, bytes, found->second.file, 0,
                                                               found->second.device, 0, true);
  if (made == nullptr) return kGpuOutOfMemory;
  if (const int copied = found->second.copied; copied >= 0) {
    void* const other = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, copied, 0);
    if (other == MAP_FAILED) return kGpuOutOfMemory;
    made->copied = static_cast<std::byte*>(other);
  }
  made->host_alias = allocation;
  ++found->second.references;
  return kGpuSuccess;
}

GpuError vmm_unmap(void* address, std::size_t bytes) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  Allocation* const found = mapping_at(p, address);
  if (found == nullptr || found->bytes != bytes) return kGpuInvalidValue;
  p.memory.release(*found);
  drop_reference(p, found->host_alias);
  return kGpuSuccess;
}

GpuError vmm_allow(void* address, std::size_t bytes, int number) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const int device = p.device_of(number);
  if (device < 0) return kGpuInvalidDevice;
  const std::lock_guard lock(p.engine.mutex());
  Allocation* const found = mapping_at(p, address);
  if (found == nullptr || found->bytes != bytes) return kGpuInvalidValue;
  if (found->kind == MemoryKind::kDevice && device != found->device &&
      !p.shareables.at(found->host_alias).fabric && !p.reaches(device, found->device))
    return kGpuInvalidDevice;
  found->access.fetch_or(1u << device);
  return kGpuSuccess;
}

GpuError vmm_export(int* fd, GpuAllocation allocation) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  const auto found = p.shareables.find(allocation);
  if (found == p.shareables.end()) return kGpuInvalidValue;
  const std::shared_ptr<MulticastObject>& multicast = found->second.multicast;
  *fd = fcntl(multicast ? multicast->file() : found->second.file, F_DUPFD_CLOEXEC, 0);
  return *fd >= 0 ? kGpuSuccess : kGpuOutOfMemory;
}

GpuError vmm_import(GpuAllocation* allocation, int fd) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  if (std::shared_ptr<MulticastObject> object{MulticastObject::open(fd)}) {
    *allocation = p.next_id++;
    p.shareables[*allocation] = {-1, object->bytes(), -1, 1};
    p.shareables[*allocation].multicast = std::move(object);
    return kGpuSuccess;
  }
  const int device = device_of(fd);
  struct stat file {};
  if (device < 0 || device >= p.config.devices || fstat(fd, &file) != 0) return kGpuInvalidValue;
  // P2P that does not work: the importing device, or only its kernels, reach a private copy
  // instead.
  const bool copies = p.config.p2p == Config::PeerAccess::kCopies && device != current_device();
  const bool lost =
      copies || (p.config.p2p == Config::PeerAccess::kLost && device != current_device());
  const int own =
      lost ? memfd_create("rondo-simt-lost", MFD_CLOEXEC) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0 || (lost && ftruncate(own, file.st_size) != 0)) return kGpuOutOfMemory;
  *allocation = p.next_id++;
  Shareable& made = p.shareables[*allocation];
  made = {own, static_cast<std::size_t>(file.st_size), device, 1};
  if (copies) made.copied = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return kGpuSuccess;
}

GpuError vmm_retain(GpuAllocation* allocation, void* address) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  const Allocation* const found = mapping_at(p, address);
  if (found == nullptr) return kGpuInvalidValue;
  *allocation = found->host_alias;
  ++p.shareables[found->host_alias].references;
  return kGpuSuccess;
}

// For a whole mapping: an adapter in tests maps its memory file, which begins at the same place.
GpuError dmabuf_export(int* fd, void* address, std::size_t bytes) {
  Platform& p = platform();
  if (const GpuError error = p.driver_trouble()) return error;
  if (!p.config.dmabuf) return kGpuNotSupported;
  const std::lock_guard lock(p.engine.mutex());
  const Allocation* const found = mapping_at(p, address);
  if (found == nullptr || found->kind != MemoryKind::kDevice || bytes > found->bytes ||
      found->begin != reinterpret_cast<std::uint64_t>(address))
    return kGpuInvalidValue;
  if (bytes == 0 || bytes % static_cast<std::size_t>(getpagesize()) != 0) return kGpuInvalidValue;
  *fd = fcntl(found->file, F_DUPFD_CLOEXEC, 0);
  return *fd >= 0 ? kGpuSuccess : kGpuOutOfMemory;
}

// Adapters in tests write directly to a device's memory.
GpuError flush_direct_writes() { return platform().driver_trouble(); }

}  // namespace rondo::simt::calls
