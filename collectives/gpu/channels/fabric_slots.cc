// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/fabric_slots.h"

#include <bit>

#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

const EdgeTransport& by_nvlink() { return edge_transport(EdgeTransport::kInFabric); }

// On a stream of its own: kernels of other communicators may run meanwhile.
Status zero_block(std::byte* at, std::uint64_t bytes) {
  const GpuApi& api = *gpu_api();
  GpuStream stream = nullptr;
  RONDO_CHECK_OK(check(api.create_stream(&stream, 0), "cudaStreamCreate"));
  GpuError error = api.fill(at, 0, bytes, stream);
  if (error == kGpuSuccess) error = api.synchronize_stream(stream);
  api.destroy_stream(stream);
  return check(error, "zeroing slots of NVLink between hosts");
}

}  // namespace

Result<FabricSlots> FabricSlots::make(const ConnectionLayout& layout, int rank, int device) {
  FabricSlots made;
  made.rank_ = rank;
  made.device_ = device;
  made.bytes_ = layout.fabric_bytes(rank);
  made.of_rank_.resize(static_cast<std::size_t>(layout.ranks()));
  if (made.bytes_ == 0) return made;
  RONDO_TRY(EdgeMemory own, by_nvlink().allocate(made.bytes_, device));
  made.handle_ = std::bit_cast<GpuFabricHandle>(own.handle.plain.ipc);
  RONDO_CHECK_OK(zero_block(own.memory.get(), made.bytes_));
  made.of_rank_[static_cast<std::size_t>(rank)] = std::move(own.memory);
  return made;
}

Status FabricSlots::map(const ConnectionLayout& layout, std::span<const GpuFabricHandle> handles) {
  for (int r = 0; r < layout.ranks(); ++r) {
    if (r == rank_ || layout.fabric_bytes(r) == 0) continue;
    if (!layout.fabric_messages().share_clique(rank_, r)) continue;
    MemoryHandle handle;
    handle.plain.kind = PlainHandle::kFabric;
    handle.plain.ipc = std::bit_cast<GpuIpcHandle>(handles[static_cast<std::size_t>(r)]);
    auto mapped = by_nvlink().connect(handle, layout.fabric_bytes(r), device_);
    if (!mapped.ok())
      return fail(mapped.code(), "map memory of rank {} by NVLink: {}", r, mapped.error().text);
    of_rank_[static_cast<std::size_t>(r)] = std::move(*mapped);
  }
  return ok_status();
}

}  // namespace rondo::gpu
