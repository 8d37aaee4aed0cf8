// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/virtual_memory.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Only its own device can access mapped memory, until each peer is given access to it.
// cudaDeviceEnablePeerAccess gives access to cudaMalloc memory only.
GpuError who_may_access(const GpuApi& api, int device, std::vector<int>* devices) {
  int count = 0;
  GpuError error = api.device_count(&count);
  devices->push_back(device);
  for (int peer = 0; peer < count && error == kGpuSuccess; ++peer) {
    int reaches = 0;
    if (peer != device) error = api.can_access_peer(&reaches, peer, device);
    if (reaches != 0) devices->push_back(peer);
  }
  return error;
}

constexpr const char* kImporting = "mapping another process's device memory";

}  // namespace

bool VirtualMemory::can_make(int device) {
  const GpuApi& api = *gpu_api();
  int virtual_memory = 0, handles = 0;
  return api.vmm_create != nullptr &&
         api.attribute(&virtual_memory, GpuAttribute::kVirtualMemory, device) == kGpuSuccess &&
         api.attribute(&handles, GpuAttribute::kPosixHandles, device) == kGpuSuccess &&
         virtual_memory != 0 && handles != 0;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::reserve(std::size_t bytes, int device) {
  const GpuApi& api = *gpu_api();
  std::size_t granularity = 0;
  RONDO_CHECK_OK(check(api.vmm_granularity(&granularity, device), "cuMemGetAllocationGranularity"));
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
  std::vector<int> devices;
  RONDO_CHECK_OK(check(who_may_access(api, device, &devices), "cudaDeviceCanAccessPeer"));
  std::unique_ptr<VirtualMemory> made(new VirtualMemory(rounded, std::move(devices)));
  RONDO_CHECK_OK(made->reserve_range());
  return made;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::make(std::size_t bytes, int device) {
  RONDO_TRY(auto made, reserve(bytes, device));
  RONDO_CHECK_OK(made->bring_back());
  return made;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::reserve_import(std::size_t bytes,
                                                                     std::span<const int> devices) {
  std::unique_ptr<VirtualMemory> made(new VirtualMemory(bytes, {devices.begin(), devices.end()}));
  RONDO_CHECK_OK(made->reserve_range());
  return made;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::import(int file, std::size_t bytes,
                                                             std::span<const int> devices) {
  RONDO_TRY(auto made, reserve_import(bytes, devices));
  RONDO_CHECK_OK(made->bring_back(file));
  return made;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::make_for_fabric(std::size_t bytes,
                                                                      int device) {
  RONDO_TRY(auto made, reserve_import(bytes, {&device, 1}));
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(check(gpu_api()->fabric_create(&allocation, bytes, device),
                       "cuMemCreate with a fabric handle"));
  RONDO_CHECK_OK(made->map(allocation, "mapping device memory"));
  return made;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::import_fabric(const GpuFabricHandle& handle,
                                                                    std::size_t bytes, int device) {
  RONDO_TRY(auto made, reserve_import(bytes, {&device, 1}));
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(check(gpu_api()->fabric_import(&allocation, handle),
                       "cuMemImportFromShareableHandle of a fabric handle"));
  RONDO_CHECK_OK(made->map(allocation, "mapping another host's device memory"));
  return made;
}

VirtualMemory::~VirtualMemory() { (void)end().ok(); }

Status VirtualMemory::reserve_range() {
  assert(address_ == nullptr);
  void* at = nullptr;
  RONDO_CHECK_OK(check(api_.vmm_reserve(&at, bytes_, 0), "cuMemAddressReserve"));
  address_ = static_cast<std::byte*>(at);
  return ok_status();
}

// Releases the allocation, because the mapping keeps the memory.
Status VirtualMemory::map(GpuAllocation allocation, const char* what) {
  assert(address_ != nullptr && !mapped_ && !devices_.empty());
  GpuError error = api_.vmm_map(address_, bytes_, allocation);
  if (error == kGpuSuccess) {
    mapped_ = true;
    for (const int device : devices_)
      if (error == kGpuSuccess) error = api_.vmm_allow(address_, bytes_, device);
    if (error != kGpuSuccess) (void)drop().ok();
  }
  api_.vmm_release(allocation);
  return check(error, what);
}

Status VirtualMemory::bring_back() {
  if (mapped_) return ok_status();
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(check(api_.vmm_create(&allocation, bytes_, devices_[0]), "cuMemCreate"));
  return map(allocation, "mapping device memory");
}

Status VirtualMemory::bring_back(int file) {
  if (mapped_) return ok_status();
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(check(api_.vmm_import(&allocation, file), "cuMemImportFromShareableHandle"));
  return map(allocation, kImporting);
}

Status VirtualMemory::drop() {
  if (!mapped_) return ok_status();
  RONDO_CHECK_OK(check(api_.vmm_unmap(address_, bytes_), "cuMemUnmap"));
  mapped_ = false;
  return ok_status();
}

Status VirtualMemory::end() {
  if (address_ == nullptr) return ok_status();
  RONDO_CHECK_OK(drop());
  void* const at = std::exchange(address_, nullptr);
  return check(api_.vmm_unreserve(at, bytes_), "cuMemAddressFree");
}

}  // namespace rondo::gpu
