// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/fabric_memory.h"

#include <memory>
#include <utility>

#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {
namespace {

std::shared_ptr<std::byte> held(std::unique_ptr<VirtualMemory> made) {
  std::byte* const at = made->address();
  return {at, [kept = std::shared_ptr<VirtualMemory>(std::move(made))](std::byte*) {
            free_when_idle([kept] { (void)kept->end().ok(); });
          }};
}

}  // namespace

bool has_fabric_handles(int device) {
  const GpuApi& api = *gpu_api();
  int supported = 0;
  return VirtualMemory::can_make(device) &&
         api.attribute(&supported, GpuAttribute::kFabricHandles, device) == kGpuSuccess &&
         supported != 0;
}

Result<FabricBlock> allocate_fabric(std::size_t bytes, int device) {
  RONDO_TRY(auto made, VirtualMemory::make_for_fabric(bytes, device));
  const GpuApi& api = *gpu_api();
  FabricBlock block;
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(
      check(api.vmm_retain(&allocation, made->address()), "cuMemRetainAllocationHandle"));
  const GpuError exported = api.fabric_export(&block.handle, allocation);
  api.vmm_release(allocation);
  RONDO_CHECK_OK(check(exported, "cuMemExportToShareableHandle of a fabric handle"));
  block.memory = held(std::move(made));
  return block;
}

Result<ImportedMemory> import_fabric(const GpuFabricHandle& handle, std::size_t bytes, int device) {
  RONDO_TRY(auto made, VirtualMemory::import_fabric(handle, bytes, device));
  return held(std::move(made));
}

}  // namespace rondo::gpu
