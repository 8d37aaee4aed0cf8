#include "transport/memory/memory_registry.h"

#include <algorithm>

#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

bool can_share(const GpuApi& api, int device) {
  int virtual_memory = 0, handles = 0;
  return api.vmm_create != nullptr &&
         api.attribute(&virtual_memory, GpuAttribute::kVirtualMemory, device) == kGpuSuccess &&
         api.attribute(&handles, GpuAttribute::kPosixHandles, device) == kGpuSuccess &&
         virtual_memory != 0 && handles != 0;
}

// Mapped memory is its own device's alone, until each peer is allowed in: other than cudaMalloc's,
// which cudaDeviceEnablePeerAccess opens.
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

// Maps an allocation, which is released: the mapping keeps it. Every step that succeeded is undone
// where a later one fails.
GpuError map(const GpuApi& api, GpuAllocation allocation, std::size_t bytes,
             std::span<const int> devices, void** address) {
  GpuError error = api.vmm_reserve(address, bytes, 0);
  if (error == kGpuSuccess) {
    error = api.vmm_map(*address, bytes, allocation);
    if (error == kGpuSuccess) {
      for (const int device : devices)
        if (error == kGpuSuccess) error = api.vmm_allow(*address, bytes, device);
      if (error != kGpuSuccess) api.vmm_unmap(*address, bytes);
    }
    if (error != kGpuSuccess) api.vmm_unreserve(*address, bytes);
  }
  api.vmm_release(allocation);
  return error;
}

Done unmap(const GpuApi& api, void* address, std::size_t bytes) {
  RONDO_CHECK_OK(check(api.vmm_unmap(address, bytes), "cuMemUnmap"));
  return check(api.vmm_unreserve(address, bytes), "cuMemAddressFree");
}

GpuError map_new(const GpuApi& api, std::size_t bytes, int device, void** address) {
  std::vector<int> devices;
  GpuAllocation allocation = 0;
  GpuError error = who_may_access(api, device, &devices);
  if (error == kGpuSuccess) error = api.vmm_create(&allocation, bytes, device);
  return error == kGpuSuccess ? map(api, allocation, bytes, devices, address) : error;
}

Result<ImportedMemory> map_imported(const MemoryHandle& handle, std::span<const int> devices) {
  const GpuApi& api = *gpu_api();
  void* at = nullptr;
  if (!handle.file) {
    RONDO_CHECK_OK(check(api.ipc_open(&at, handle.plain.ipc),
                         "cudaIpcOpenMemHandle (containers need a common PID and IPC namespace)"));
    return ImportedMemory(static_cast<std::byte*>(at), [&api](std::byte* opened) {
      free_when_idle([&api, opened] { api.ipc_close(opened); });
    });
  }
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(
      check(api.vmm_import(&allocation, handle.file.get()), "cuMemImportFromShareableHandle"));
  const std::size_t bytes = handle.plain.bytes;
  RONDO_CHECK_OK(
      check(map(api, allocation, bytes, devices, &at), "mapping another process's device memory"));
  return ImportedMemory(static_cast<std::byte*>(at), [&api, bytes](std::byte* mapped) {
    free_when_idle([&api, mapped, bytes] { (void)unmap(api, mapped, bytes).ok(); });
  });
}

}  // namespace

MemoryRegistry& memory_registry() {
  static auto& all = *new MemoryRegistry;  // never destroyed: memory may outlive main()
  return all;
}

void MemoryRegistry::tell_end(std::uint64_t number) {
  std::lock_guard lock(listeners_mutex_);
  for (Listener* listener : listeners_) listener->block_ends(number);
}

Result<void*> MemoryRegistry::allocate(std::size_t bytes, int device) {
  const GpuApi& api = *gpu_api();
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api.free_memory(nullptr), "cudaFree"));  // makes the context current
  void* address = nullptr;
  std::size_t granularity = 0, mapped = 0;
  if (can_share(api, device) && api.vmm_granularity(&granularity, device) == kGpuSuccess) {
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
    if (map_new(api, rounded, device, &address) == kGpuSuccess) mapped = rounded;
  }
  if (mapped == 0)
    RONDO_CHECK_OK(check(api.allocate(&address, bytes), "cudaMalloc for ncclMemAlloc"));
  std::lock_guard lock(mutex_);
  allocated_[static_cast<std::byte*>(address)] = {mapped, device, bytes, ++newest_};
  return address;
}

std::optional<MemoryRegistry::Allocation> MemoryRegistry::forget(void* pointer) {
  std::unique_lock lock(mutex_);
  const auto found = allocated_.extract(static_cast<std::byte*>(pointer));
  lock.unlock();
  if (!found) return std::nullopt;
  tell_end(found.mapped().number);
  return found.mapped();
}

Done MemoryRegistry::give_back(void* pointer, const Allocation& memory) {
  const GpuApi& api = *gpu_api();
  return memory.mapped != 0 ? unmap(api, pointer, memory.mapped)
                            : check(api.free_memory(pointer), "cudaFree");
}

bool MemoryRegistry::free(void* pointer, Done* freed) {
  const auto memory = forget(pointer);
  if (!memory) return false;
  *freed = [&]() -> Done {
    const DeviceScope scope(memory->device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(check(gpu_api()->synchronize_device(), "cudaDeviceSynchronize"));
    return give_back(pointer, *memory);
  }();
  return true;
}

Result<OwnMemory> MemoryRegistry::allocate_own(std::size_t bytes, int device) {
  RONDO_TRY(void* const made, allocate(bytes, device));
  return OwnMemory(static_cast<std::byte*>(made), [this](std::byte* pointer) {
    free_when_idle([this, pointer] {
      const auto memory = forget(pointer);
      if (!memory) return;
      const DeviceScope scope(memory->device);
      (void)give_back(pointer, *memory).ok();
    });
  });
}

std::optional<MemoryBlock> MemoryRegistry::find(const void* pointer, std::size_t bytes) {
  auto* const begin = const_cast<std::byte*>(static_cast<const std::byte*>(pointer));
  MemoryBlock found;
  const auto holds = [&](const std::byte* base, std::size_t size) {
    return begin >= base && begin + bytes <= base + size;
  };
  {
    std::lock_guard lock(mutex_);
    if (auto after = allocated_.upper_bound(begin); after != allocated_.begin()) {
      const auto& [base, memory] = *std::prev(after);
      const std::size_t size = memory.mapped != 0 ? memory.mapped : memory.asked;
      if (holds(base, size)) return MemoryBlock{memory.number, base, size};
    }
    for (const auto& [number, range] : registered_)
      if (holds(range.data(), range.size())) found.number = number;
  }
  if (found.number == 0) return std::nullopt;
  // What is shared is a whole allocation, whatever part of it was registered.
  void* base = nullptr;
  if (gpu_api()->address_range(&base, &found.bytes, pointer) != kGpuSuccess) return std::nullopt;
  found.base = static_cast<std::byte*>(base);
  if (!holds(found.base, found.bytes)) return std::nullopt;
  return found;
}

std::uint64_t MemoryRegistry::add(void* pointer, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  registered_[++newest_] = {static_cast<std::byte*>(pointer), bytes};
  return newest_;
}

void MemoryRegistry::remove(std::uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    if (registered_.erase(number) == 0) return;
  }
  tell_end(number);
}

Result<MemoryHandle> MemoryRegistry::export_block(const MemoryBlock& block) {
  const GpuApi& api = *gpu_api();
  MemoryHandle handle;
  handle.plain.process = this_process();
  handle.plain.number = block.number;
  handle.plain.base = reinterpret_cast<std::uint64_t>(block.base);
  handle.plain.bytes = block.bytes;
  GpuAllocation allocation = 0;
  if (api.vmm_retain != nullptr && api.vmm_retain(&allocation, block.base) == kGpuSuccess) {
    int fd = -1;
    const GpuError exported = api.vmm_export(&fd, allocation);
    api.vmm_release(allocation);
    RONDO_CHECK_OK(check(exported, "cuMemExportToShareableHandle"));
    handle.file = Fd(fd);
    handle.plain.kind = PlainHandle::kFile;
    return handle;
  }
  RONDO_CHECK_OK(check(api.ipc_export(&handle.plain.ipc, block.base), "cudaIpcGetMemHandle"));
  handle.plain.kind = PlainHandle::kIpc;
  return handle;
}

Result<MemoryHandle> MemoryRegistry::export_range(const void* pointer, std::size_t bytes) {
  if (const auto block = find(pointer, bytes)) return export_block(*block);
  MemoryBlock whole;
  void* base = nullptr;
  RONDO_CHECK_OK(
      check(gpu_api()->address_range(&base, &whole.bytes, pointer), "cuMemGetAddressRange"));
  whole.base = static_cast<std::byte*>(base);
  return export_block(whole);
}

Result<ImportedMemory> MemoryRegistry::import_memory(const MemoryHandle& handle,
                                                     std::span<const int> devices) {
  const PlainHandle& plain = handle.plain;
  if (plain.number == 0) return map_imported(handle, devices);
  return imported_.get({plain.process, plain.number, plain.base, {devices.begin(), devices.end()}},
                       [&] { return map_imported(handle, devices); });
}

MemoryRegistry::Listener::Listener() {
  MemoryRegistry& all = memory_registry();
  std::lock_guard lock(all.listeners_mutex_);
  all.listeners_.insert(this);
}
MemoryRegistry::Listener::~Listener() {
  MemoryRegistry& all = memory_registry();
  std::lock_guard lock(all.listeners_mutex_);
  all.listeners_.erase(this);
}

}  // namespace rondo::gpu
