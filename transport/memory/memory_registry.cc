// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/memory_registry.h"

#include <algorithm>
#include <cassert>

#include "base/log.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

bool has_room(const GpuApi& api, std::size_t bytes) {
  std::size_t free_bytes = 0, total = 0;
  return api.memory_info(&free_bytes, &total) != kGpuSuccess || bytes <= free_bytes;
}

// Owned by the deleter of memory from a CUDA IPC handle, then by the deferred free that closes it.
struct CloseIpc {
  std::shared_ptr<const bool> open = std::make_shared<const bool>(true);
  void operator()(std::byte* opened) {
    free_when_idle([opened, open = std::move(open)] { gpu_api()->ipc_close(opened); });
  }
};

// CUDA does not open a handle in the process that made it. There the memory has its own address,
// and its owner keeps it until the process has no unfinished work.
Result<ImportedMemory> open_ipc(const MemoryHandle& handle) {
  if (handle.plain.process == this_process())
    return ImportedMemory(reinterpret_cast<std::byte*>(handle.plain.base), [](std::byte*) {});
  void* at = nullptr;
  RONDO_CHECK_OK(check(gpu_api()->ipc_open(&at, handle.plain.ipc),
                       "cudaIpcOpenMemHandle (containers need a common PID and IPC namespace)"));
  return ImportedMemory(static_cast<std::byte*>(at), CloseIpc());
}

// True while this thread gives up memory of which it knows that no kernel uses it.
thread_local bool unmaps_unused = false;

}  // namespace

MemoryRegistry& memory_registry() {
  static auto& all = *new MemoryRegistry;  // never destroyed: memory may outlive main()
  return all;
}

bool MemoryRegistry::report_end(std::uint64_t number) {
  std::lock_guard lock(listeners_mutex_);
  bool unmapped = true;
  for (Listener* listener : listeners_) unmapped &= listener->block_ends(number);
  return unmapped;
}

Result<void*> MemoryRegistry::allocate(std::size_t bytes, int device) {
  const GpuApi& api = *gpu_api();
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api.free_memory(nullptr), "cudaFree"));  // makes the context current
  Allocation made{.device = device, .asked = bytes};
  if (VirtualMemory::can_make(device)) {
    auto memory = VirtualMemory::make(bytes, device);
    // cudaMalloc would fail too, but can first wait for all work of the device, even for a kernel
    // that waits for this memory.
    if (!memory.ok() && !has_room(api, bytes)) return memory.error();
    if (memory.ok()) made.memory = std::move(*memory);
  }
  void* address = made.memory ? made.memory->address() : nullptr;
  if (!made.memory)
    RONDO_CHECK_OK(check(api.allocate(&address, bytes), "cudaMalloc for ncclMemAlloc"));
  std::lock_guard lock(mutex_);
  made.number = ++newest_;
  assert(!allocated_.contains(static_cast<std::byte*>(address)));
  allocated_[static_cast<std::byte*>(address)] = std::move(made);
  return address;
}

std::optional<MemoryRegistry::Allocation> MemoryRegistry::forget(void* pointer) {
  std::lock_guard lock(mutex_);
  auto found = allocated_.extract(static_cast<std::byte*>(pointer));
  if (!found) return std::nullopt;
  return std::move(found.mapped());
}

Status MemoryRegistry::give_back(void* pointer, const Allocation& memory) {
  const GpuApi& api = *gpu_api();
  return memory.memory ? memory.memory->end() : check(api.free_memory(pointer), "cudaFree");
}

bool MemoryRegistry::free(void* pointer, Status* freed) {
  const auto memory = forget(pointer);
  if (!memory) return false;
  *freed = [&]() -> Status {
    const DeviceScope scope(memory->device);
    RONDO_CHECK_OK(scope.entered());
    // Others unmap the memory only once this process's calls on it have finished, and so theirs.
    RONDO_CHECK_OK(check(gpu_api()->synchronize_device(), "cudaDeviceSynchronize"));
    if (!report_end(memory->number) && !memory->memory) {
      RONDO_WARN(
          "{} bytes at {} stay allocated: another process still maps them by CUDA IPC, and "
          "must close its handle before they are freed",
          memory->asked, fmt::ptr(pointer));
      return ok_status();
    }
    return give_back(pointer, *memory);
  }();
  return true;
}

Result<OwnMemory> MemoryRegistry::allocate_own(std::size_t bytes, int device) {
  RONDO_TRY(void* const made, allocate(bytes, device));
  return own(made);
}

Result<OwnMemory> MemoryRegistry::reserve_own(std::size_t bytes, int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_TRY(std::shared_ptr<VirtualMemory> memory, VirtualMemory::reserve(bytes, device));
  std::byte* const address = memory->address();
  {
    std::lock_guard lock(mutex_);
    allocated_[address] = {std::move(memory), device, bytes, ++newest_};
  }
  return own(address);
}

OwnMemory MemoryRegistry::own(void* made) {
  return OwnMemory(static_cast<std::byte*>(made), [this](std::byte* pointer) {
    free_when_idle([this, pointer] {
      const auto memory = forget(pointer);
      if (!memory) return;
      (void)report_end(memory->number);
      if (memory->memory) return (void)memory->memory->end().ok();  // needs no current device
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
      const std::size_t size = memory.memory ? memory.memory->bytes() : memory.asked;
      if (holds(base, size)) return MemoryBlock{memory.number, base, size};
    }
    for (const auto& [number, range] : registered_)
      if (holds(range.data(), range.size())) found.number = number;
  }
  if (found.number == 0) return std::nullopt;
  // Only whole allocations are shared, even if a part was registered.
  void* base = nullptr;
  if (gpu_api()->address_range(&base, &found.bytes, pointer) != kGpuSuccess) return std::nullopt;
  found.base = static_cast<std::byte*>(base);
  if (!holds(found.base, found.bytes)) return std::nullopt;
  return found;
}

namespace {

// The last range that begins at or before the address; else the end.
template <class Ranges>
auto begins_before(Ranges& ranges, const std::byte* at) {
  const auto after = ranges.upper_bound(const_cast<std::byte*>(at));
  return after == ranges.begin() ? ranges.end() : std::prev(after);
}

}  // namespace

std::map<std::byte*, MemoryRegistry::Allocation>::iterator MemoryRegistry::allocation_at(
    const std::byte* at) {
  const auto found = begins_before(allocated_, at);
  return found != allocated_.end() && at < found->first + found->second.bytes() ? found
                                                                                : allocated_.end();
}

std::optional<std::size_t> MemoryRegistry::room_at(const void* pointer) {
  const auto* const at = static_cast<const std::byte*>(pointer);
  std::lock_guard lock(mutex_);
  const auto own = allocation_at(at);
  if (own == allocated_.end()) return std::nullopt;
  return static_cast<std::size_t>(own->first + own->second.bytes() - at);
}

std::optional<int> MemoryRegistry::known_device(const void* pointer) {
  const auto* const at = static_cast<const std::byte*>(pointer);
  std::lock_guard lock(mutex_);
  if (const auto own = allocation_at(at); own != allocated_.end()) return own->second.device;
  const auto added = begins_before(known_, at);
  if (added != known_.end() && at < added->first + added->second.bytes) return added->second.device;
  return std::nullopt;
}

std::uint64_t MemoryRegistry::add(void* pointer, std::size_t bytes) {
  const GpuApi& api = *gpu_api();
  auto* const begin = static_cast<std::byte*>(pointer);
  GpuPointer info;
  void* base = nullptr;
  std::size_t whole = 0;
  const bool is_known = api.pointer_info(&info, pointer) == kGpuSuccess &&
                        info.kind == GpuMemory::kDevice &&
                        api.address_range(&base, &whole, pointer) == kGpuSuccess &&
                        begin + bytes <= static_cast<std::byte*>(base) + whole;
  std::lock_guard lock(mutex_);
  registered_[++newest_] = {begin, bytes};
  if (is_known) known_.try_emplace(begin, KnownRange{bytes, newest_, info.device});
  return newest_;
}

void MemoryRegistry::remove(std::uint64_t number) {
  const std::byte* pointer = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto ended = registered_.find(number);
    if (ended == registered_.end()) return;
    const auto known = known_.find(ended->second.data());
    if (known != known_.end() && known->second.number == number) known_.erase(known);
    pointer = ended->second.data();
    registered_.erase(ended);
  }
  if (!report_end(number))
    RONDO_WARN(
        "memory at {} is no longer registered, but another process still maps it by CUDA "
        "IPC; free it only when that process's calls have finished",
        fmt::ptr(pointer));
}

Result<MemoryHandle> MemoryRegistry::export_block(const MemoryBlock& block) {
  assert(block.base != nullptr && block.bytes > 0);
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
  const auto before = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - whole.base);
  if (before + bytes > whole.bytes)
    return fail(StatusCode::kInvalidArgument,
                "{} bytes at {} are in several allocations, mapped one behind the other (as "
                "PyTorch's expandable segments are): only one allocation can be shared; allocate "
                "them with ncclMemAlloc",
                bytes, pointer);
  return export_block(whole);
}

Result<ImportedMemory> MemoryRegistry::map_imported(const MemoryHandle& handle,
                                                    std::span<const int> devices) {
  if (!handle.file) return open_ipc(handle);
  RONDO_TRY(std::shared_ptr<VirtualMemory> made,
            VirtualMemory::import(handle.file.get(), handle.plain.bytes, devices));
  return imported(std::move(made));
}

Result<ImportedMemory> MemoryRegistry::reserve_import(std::size_t bytes,
                                                      std::span<const int> devices) {
  RONDO_TRY(std::shared_ptr<VirtualMemory> made, VirtualMemory::reserve_import(bytes, devices));
  return imported(std::move(made));
}

ImportedMemory MemoryRegistry::imported(std::shared_ptr<VirtualMemory> made) {
  std::byte* const address = made->address();
  std::lock_guard lock(mutex_);
  assert(!mapped_.contains(address));
  mapped_[address] = std::move(made);
  return ImportedMemory(address, [this](std::byte* mapped) {
    const auto end = [this, mapped] {
      std::unique_lock lock(mutex_);
      const auto memory = mapped_.extract(mapped);
      lock.unlock();
      if (memory) (void)memory.mapped()->end().ok();
    };
    if (unmaps_unused)
      end();
    else
      free_when_idle(end);
  });
}

std::weak_ptr<const bool> MemoryRegistry::unmap(ImportedMemory memory, bool unused) {
  std::weak_ptr<const bool> open;
  if (const auto* const ipc = std::get_deleter<CloseIpc>(memory)) open = ipc->open;
  const std::weak_ptr<std::byte> held = memory;
  unmaps_unused = unused;
  memory.reset();
  unmaps_unused = false;
  return held.expired() ? open : std::weak_ptr<const bool>();
}

Result<ImportedMemory> MemoryRegistry::import_memory(const MemoryHandle& handle,
                                                     std::span<const int> devices) {
  const PlainHandle& plain = handle.plain;
  if (plain.number == 0) return map_imported(handle, devices);
  return imported_.get({plain.process, plain.number, plain.base, {devices.begin(), devices.end()}},
                       [&] { return map_imported(handle, devices); });
}

std::shared_ptr<VirtualMemory> MemoryRegistry::virtual_at(const std::byte* address) {
  std::lock_guard lock(mutex_);
  auto* const at = const_cast<std::byte*>(address);
  if (const auto own = allocated_.find(at); own != allocated_.end()) return own->second.memory;
  const auto imported = mapped_.find(at);
  return imported != mapped_.end() ? imported->second : nullptr;
}

void MemoryRegistry::Listener::begin_listening() {
  MemoryRegistry& all = memory_registry();
  std::lock_guard lock(all.listeners_mutex_);
  all.listeners_.insert(this);
}

void MemoryRegistry::Listener::end_listening() {
  MemoryRegistry& all = memory_registry();
  std::lock_guard lock(all.listeners_mutex_);
  all.listeners_.erase(this);
}

}  // namespace rondo::gpu
