// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/strided_memory.h"

#include <algorithm>

#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Result<std::uint64_t> StridedMemory::stride_for(std::uint64_t bytes, std::size_t ranks) {
  const std::uint64_t units = (bytes + kUnit - 1) / kUnit;
  if (units <= kMaxAddresses / kUnit / ranks) return units * kUnit;
  return fail(
      StatusCode::kInvalidUsage,
      "{} allocations of up to {} bytes need {} x {} GiB of addresses, more than the {} GiB "
      "of a process: register smaller windows",
      ranks, bytes, ranks, units * 4, kMaxAddresses >> 30);
}

Result<std::unique_ptr<StridedMemory>> StridedMemory::map(const std::vector<Place>& places,
                                                          int device) {
  const GpuApi& api = *gpu_api();
  if (api.vmm_reserve == nullptr)
    return fail(StatusCode::kInvalidUsage, "the driver cannot map memory by address");
  std::uint64_t bytes = 0;
  for (const Place& place : places) bytes = std::max(bytes, place.bytes);
  RONDO_TRY(const std::uint64_t stride, stride_for(bytes, places.size()));
  std::unique_ptr<StridedMemory> made(new StridedMemory(stride, places.size()));
  void* at = nullptr;
  RONDO_CHECK_OK(check(api.vmm_reserve(&at, stride * places.size(), 0),
                       "cuMemAddressReserve for windows at one stride"));
  made->base_ = static_cast<std::byte*>(at);
  for (const Place& place : places) RONDO_CHECK_OK(made->add(place, device));
  return made;
}

Status StridedMemory::add(const Place& place, int device) {
  const GpuApi& api = *gpu_api();
  GpuAllocation allocation = 0;
  RONDO_CHECK_OK(check(api.vmm_retain(&allocation, place.begin),
                       "cuMemRetainAllocationHandle (memory of cudaMalloc cannot be mapped again: "
                       "use ncclMemAlloc)"));
  std::byte* const at = base_ + mapped_.size() * stride_;
  const GpuError mapped = api.vmm_map(at, place.bytes, allocation);
  api.vmm_release(allocation);  // the mapping keeps the memory
  RONDO_CHECK_OK(check(mapped, "cuMemMap of a window"));
  mapped_.push_back(place.bytes);
  return check(api.vmm_allow(at, place.bytes, device), "cuMemSetAccess of a window");
}

StridedMemory::~StridedMemory() {
  if (base_ == nullptr) return;
  free_when_idle([base = base_, stride = stride_, ranks = ranks_, mapped = mapped_] {
    const GpuApi& api = *gpu_api();
    for (std::size_t r = 0; r < mapped.size(); ++r) api.vmm_unmap(base + r * stride, mapped[r]);
    api.vmm_unreserve(base, stride * ranks);
  });
}

}  // namespace rondo::gpu
