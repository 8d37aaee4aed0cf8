// SPDX-License-Identifier: Apache-2.0
// Fabric handles: virtual memory that processes of other emulated hosts map. A handle names the
// file of the memory in its maker's process, and the clique (Config::fabric) that may import it.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {
namespace {

struct FabricName {
  int clique, process, file, device;
  std::uint64_t number;  // of the file: descriptors are reused
};
static_assert(sizeof(FabricName) <= sizeof(GpuFabricHandle));

GpuError trouble_with_fabric(const Platform& p) {
  if (const GpuError error = p.driver_trouble()) return error;
  if (p.config.fabric == 0) return kGpuNotSupported;
  return p.config.imex ? kGpuSuccess : kGpuNotPermitted;
}

}  // namespace

GpuError fabric_create(GpuAllocation* allocation, std::size_t bytes, int device) {
  Platform& p = platform();
  if (const GpuError error = trouble_with_fabric(p)) return error;
  if (const GpuError error = vmm_create(allocation, bytes, device)) return error;
  const std::lock_guard lock(p.engine.mutex());
  p.shareables[*allocation].fabric = true;
  return kGpuSuccess;
}

GpuError fabric_export(GpuFabricHandle* handle, GpuAllocation allocation) {
  Platform& p = platform();
  if (const GpuError error = trouble_with_fabric(p)) return error;
  const std::lock_guard lock(p.engine.mutex());
  const auto found = p.shareables.find(allocation);
  struct stat file {};
  if (found == p.shareables.end() || !found->second.fabric || fstat(found->second.file, &file) != 0)
    return kGpuInvalidValue;
  const FabricName name{p.config.fabric, getpid(), found->second.file, found->second.device,
                        file.st_ino};
  *handle = {};
  std::memcpy(handle->bytes, &name, sizeof(name));
  return kGpuSuccess;
}

GpuError fabric_import(GpuAllocation* allocation, const GpuFabricHandle& handle) {
  Platform& p = platform();
  if (const GpuError error = trouble_with_fabric(p)) return error;
  FabricName name{};
  std::memcpy(&name, handle.bytes, sizeof(name));
  if (name.clique != p.config.fabric) return kGpuNotPermitted;
  const std::lock_guard lock(p.engine.mutex());
  const int own =
      open(fmt::format("/proc/{}/fd/{}", name.process, name.file).c_str(), O_RDWR | O_CLOEXEC);
  struct stat file {};
  if (own < 0 || fstat(own, &file) != 0 || file.st_ino != name.number) {
    if (own >= 0) close(own);
    return kGpuInvalidValue;
  }
  *allocation = p.next_id++;
  p.shareables[*allocation] = {own, static_cast<std::size_t>(file.st_size), name.device, 1};
  p.shareables[*allocation].fabric = true;
  return kGpuSuccess;
}

}  // namespace rondo::simt::calls
