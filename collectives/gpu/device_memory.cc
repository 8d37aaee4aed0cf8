#include "collectives/gpu/device_memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "collectives/gpu/device.h"

namespace rondo::gpu {
namespace {

struct Block {
  std::size_t bytes = 0;  // mapped; 0: plain cudaMalloc
  int device = kHostRank;
};

struct Blocks {
  std::mutex mutex;
  std::map<void*, Block> by_address;
};
Blocks& blocks() {
  static auto& all = *new Blocks;  // never destroyed: memory may outlive main()
  return all;
}

bool can_share(const GpuApi& api, int device) {
  int virtual_memory = 0, handles = 0;
  return api.vmm_create != nullptr &&
         api.attribute(&virtual_memory, GpuAttribute::kVirtualMemory, device) == kGpuSuccess &&
         api.attribute(&handles, GpuAttribute::kPosixHandles, device) == kGpuSuccess &&
         virtual_memory != 0 && handles != 0;
}

// Every step that succeeded is undone where a later one fails.
GpuError map_new(const GpuApi& api, std::size_t bytes, int device, void** address) {
  GpuAllocation allocation = 0;
  if (const GpuError error = api.vmm_create(&allocation, bytes, device); error != kGpuSuccess)
    return error;
  GpuError error = api.vmm_reserve(address, bytes, 0);
  if (error == kGpuSuccess) {
    error = api.vmm_map(*address, bytes, allocation);
    if (error == kGpuSuccess) {
      error = api.vmm_allow(*address, bytes, device);
      if (error != kGpuSuccess) api.vmm_unmap(*address, bytes);
    }
    if (error != kGpuSuccess) api.vmm_unreserve(*address, bytes);
  }
  api.vmm_release(allocation);  // the mapping keeps it
  return error;
}

Done release(const GpuApi& api, void* address, const Block& block) {
  const DeviceScope scope(block.device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api.synchronize_device(), "cudaDeviceSynchronize"));  // as cudaFree does
  if (block.bytes == 0) return check(api.free_memory(address), "cudaFree");
  RONDO_CHECK_OK(check(api.vmm_unmap(address, block.bytes), "cuMemUnmap"));
  return check(api.vmm_unreserve(address, block.bytes), "cuMemAddressFree");
}

}  // namespace

Result<void*> allocate_shareable(std::size_t bytes, int device) {
  const GpuApi& api = *gpu_api();
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api.free_memory(nullptr), "cudaFree"));  // makes the context current
  void* address = nullptr;
  Block block{0, device};
  std::size_t granularity = 0;
  if (can_share(api, device) && api.vmm_granularity(&granularity, device) == kGpuSuccess) {
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
    if (map_new(api, rounded, device, &address) == kGpuSuccess) block.bytes = rounded;
  }
  if (block.bytes == 0)
    RONDO_CHECK_OK(check(api.allocate(&address, bytes), "cudaMalloc for ncclMemAlloc"));
  std::lock_guard lock(blocks().mutex);
  blocks().by_address[address] = block;
  return address;
}

bool free_shareable(void* pointer, Done* freed) {
  Block block;
  {
    std::lock_guard lock(blocks().mutex);
    const auto found = blocks().by_address.find(pointer);
    if (found == blocks().by_address.end()) return false;
    block = found->second;
    blocks().by_address.erase(found);
  }
  *freed = release(*gpu_api(), pointer, block);
  return true;
}

}  // namespace rondo::gpu
