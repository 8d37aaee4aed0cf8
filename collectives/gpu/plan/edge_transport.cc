// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/edge_transport.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "transport/cuda/device.h"
#include "transport/memory/fabric_memory.h"
#include "transport/memory/memory_registry.h"
#include "transport/memory/pinned_file.h"
#include "transport/shm/memfd.h"

namespace rondo::gpu {
namespace {

constexpr const char* kWhat = "slots between GPUs";

Result<EdgeMemory> allocate_on_device(std::uint64_t bytes, int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  EdgeMemory made;
  RONDO_TRY(made.memory, memory_registry().allocate_own(bytes, device));
  if (auto handle = memory_registry().export_range(made.memory.get(), bytes); handle.ok())
    made.handle = std::move(*handle);
  return made;
}

Result<MappedMemory> map_of_device(const MemoryHandle& handle, std::uint64_t, int device) {
  if (handle.plain.kind == PlainHandle::kNone)
    return fail(StatusCode::kSystemError, "it cannot be shared");
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  return memory_registry().import_memory(handle, {&device, 1});
}

Result<EdgeMemory> allocate_in_fabric(std::uint64_t bytes, int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_TRY(FabricBlock block, allocate_fabric(bytes, device));
  EdgeMemory made{std::move(block.memory), {}};
  made.handle.plain.kind = PlainHandle::kFabric;
  made.handle.plain.ipc = std::bit_cast<GpuIpcHandle>(block.handle);
  return made;
}

Result<MappedMemory> map_in_fabric(const MemoryHandle& handle, std::uint64_t bytes, int device) {
  if (handle.plain.kind != PlainHandle::kFabric)
    return fail(StatusCode::kSystemError, "it has no fabric handle");
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  return import_fabric(std::bit_cast<GpuFabricHandle>(handle.plain.ipc), bytes, device);
}

Result<EdgeMemory> allocate_file(std::uint64_t bytes, int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  EdgeMemory made;
  RONDO_TRY(made.handle.file, shm::create_memfd("rondo-gpu-slots", bytes));
  made.handle.plain.kind = PlainHandle::kFile;
  RONDO_TRY(made.memory, map_pinned(made.handle.file.get(), bytes, kWhat));
  return made;
}

Result<MappedMemory> map_file(const MemoryHandle& handle, std::uint64_t bytes, int device) {
  if (!handle.file) return fail(StatusCode::kSystemError, "there is no memory file for {}", kWhat);
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  return map_pinned(handle.file.get(), bytes, kWhat);
}

// Registered, not allocated by CUDA: allocation may wait for kernels, which may wait for what
// arrives here.
Result<EdgeMemory> allocate_pinned(std::uint64_t bytes, int device) {
  RONDO_TRY(EdgeMemory made, allocate_file(bytes, device));
  made.handle = {};
  return made;
}

Result<MappedMemory> map_nothing(const MemoryHandle&, std::uint64_t, int) {
  return fail(StatusCode::kInternalError, "memory of another host cannot be mapped");
}

constexpr EdgeTransport kEdgeTransports[] = {
    {"P2P", EdgeTransport::kAtReceiver, false,
     [](const EdgeFacts& facts) { return facts.same_host && facts.reach; }, allocate_on_device,
     map_of_device},
    {"NVLink", EdgeTransport::kInFabric, false,
     [](const EdgeFacts& facts) { return !facts.same_host && facts.fabric; }, allocate_in_fabric,
     map_in_fabric},
    {"host", EdgeTransport::kOnHost, true, [](const EdgeFacts& facts) { return facts.same_host; },
     allocate_file, map_file},
    {"network", EdgeTransport::kAtBothEnds, true, [](const EdgeFacts&) { return true; },
     allocate_pinned, map_nothing},
};

}  // namespace

const EdgeTransport& edge_transport(const EdgeFacts& facts) {
  return *std::find_if(std::begin(kEdgeTransports), std::end(kEdgeTransports),
                       [&](const EdgeTransport& row) { return row.can_connect(facts); });
}

const EdgeTransport& edge_transport(EdgeTransport::Home home) {
  return *std::find_if(std::begin(kEdgeTransports), std::end(kEdgeTransports),
                       [&](const EdgeTransport& row) { return row.home == home; });
}

}  // namespace rondo::gpu
