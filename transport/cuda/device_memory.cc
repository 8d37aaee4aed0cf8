#include "transport/cuda/device_memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

struct Block {
  std::size_t bytes = 0;  // mapped; 0: plain cudaMalloc
  int device = kHostRank;
  std::size_t asked = 0;
  std::uint64_t number = 0;
};

struct Blocks {
  std::mutex mutex;
  std::map<void*, Block> by_address;
  std::map<std::uint64_t, std::pair<std::byte*, std::size_t>> registered;
  std::uint64_t newest = 0;  // number
  std::mutex listeners_mutex;
  std::set<BlockListener*> listeners;
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

// Mapped memory is its own device's alone, until each peer is allowed in: other than cudaMalloc's,
// which cudaDeviceEnablePeerAccess opens.
GpuError allow_peers(const GpuApi& api, void* address, std::size_t bytes, int device) {
  int devices = 0;
  GpuError error = api.device_count(&devices);
  for (int peer = 0; peer < devices && error == kGpuSuccess; ++peer) {
    int reaches = 0;
    if (peer != device) error = api.can_access_peer(&reaches, peer, device);
    if (error == kGpuSuccess && reaches != 0) error = api.vmm_allow(address, bytes, peer);
  }
  return error;
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
      if (error == kGpuSuccess) error = allow_peers(api, *address, bytes, device);
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

void tell_end(std::uint64_t number) {
  std::lock_guard lock(blocks().listeners_mutex);
  for (BlockListener* listener : blocks().listeners) listener->block_ends(number);
}

}  // namespace

Result<void*> allocate_shareable(std::size_t bytes, int device) {
  const GpuApi& api = *gpu_api();
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api.free_memory(nullptr), "cudaFree"));  // makes the context current
  void* address = nullptr;
  Block block{0, device, bytes, 0};
  std::size_t granularity = 0;
  if (can_share(api, device) && api.vmm_granularity(&granularity, device) == kGpuSuccess) {
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
    if (map_new(api, rounded, device, &address) == kGpuSuccess) block.bytes = rounded;
  }
  if (block.bytes == 0)
    RONDO_CHECK_OK(check(api.allocate(&address, bytes), "cudaMalloc for ncclMemAlloc"));
  std::lock_guard lock(blocks().mutex);
  block.number = ++blocks().newest;
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
  tell_end(block.number);
  *freed = release(*gpu_api(), pointer, block);
  return true;
}

std::optional<ShareableBlock> find_shareable(const void* pointer, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(pointer);
  const auto holds = [&](const std::byte* base, std::size_t size) {
    return begin >= base && begin + bytes <= base + size;
  };
  ShareableBlock found;
  {
    std::lock_guard lock(blocks().mutex);
    auto after = blocks().by_address.upper_bound(const_cast<void*>(pointer));
    if (after != blocks().by_address.begin()) {
      const auto& [address, block] = *std::prev(after);
      const std::size_t size = block.bytes != 0 ? block.bytes : block.asked;
      auto* const base = static_cast<std::byte*>(address);
      if (holds(base, size)) return ShareableBlock{block.number, base, size};
    }
    for (const auto& [number, range] : blocks().registered)
      if (holds(range.first, range.second)) found.number = number;
  }
  if (found.number == 0) return std::nullopt;
  // What is shared is a whole allocation, whatever part of it was registered.
  void* base = nullptr;
  if (gpu_api()->address_range(&base, &found.bytes, pointer) != kGpuSuccess) return std::nullopt;
  found.base = static_cast<std::byte*>(base);
  if (!holds(found.base, found.bytes)) return std::nullopt;
  return found;
}

std::uint64_t register_shareable(void* pointer, std::size_t bytes) {
  std::lock_guard lock(blocks().mutex);
  const std::uint64_t number = ++blocks().newest;
  blocks().registered[number] = {static_cast<std::byte*>(pointer), bytes};
  return number;
}

void deregister_shareable(std::uint64_t number) {
  {
    std::lock_guard lock(blocks().mutex);
    if (blocks().registered.erase(number) == 0) return;
  }
  tell_end(number);
}

BlockListener::BlockListener() {
  std::lock_guard lock(blocks().listeners_mutex);
  blocks().listeners.insert(this);
}
BlockListener::~BlockListener() {
  std::lock_guard lock(blocks().listeners_mutex);
  blocks().listeners.erase(this);
}

}  // namespace rondo::gpu
