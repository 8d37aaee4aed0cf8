// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/lazy_blocks.h"

#include <bit>
#include <cassert>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

constexpr const char* kNames[] = {"slots of Simple", "slots of LL", "slots of LL128", "staging",
                                  "lines of LL push"};
static_assert(std::size(kNames) == ConnectionLayout::kLazyBlocks);

// Whether a rank of this process uses memory of `rank`.
bool is_used(const ConnectionLayout& layout, const std::vector<bool>& here, int rank) {
  for (int own = 0; own < layout.ranks(); ++own)
    if (here[own] && layout.uses(own, rank)) return true;
  return false;
}

const EdgeTransport& by_nvlink() { return edge_transport(EdgeTransport::kInFabric); }

// On a stream of its own: kernels of other communicators may run meanwhile. The device is current.
Status zero_block(std::byte* at, std::uint64_t bytes, const char* what) {
  const GpuApi& api = *gpu_api();
  GpuStream stream = nullptr;
  RONDO_CHECK_OK(check(api.create_stream(&stream, 0), "cudaStreamCreate"));
  GpuError error = api.fill(at, 0, bytes, stream);
  if (error == kGpuSuccess) error = api.synchronize_stream(stream);
  api.destroy_stream(stream);
  return check(error, what);
}

}  // namespace

Result<std::unique_ptr<LazyBlocks>> LazyBlocks::reserve(const ConnectionLayout& layout, int device,
                                                        std::vector<bool> here) {
  std::unique_ptr<LazyBlocks> made(new LazyBlocks(device, std::move(here)));
  for (int b = 0; b < ConnectionLayout::kLazyBlocks; ++b) {
    made->places_[b].resize(made->here_.size());
    made->zeroed_by_host_[b] = layout.is_zeroed_by_host(static_cast<Block>(b));
    made->cleared_by_kernel_[b] = layout.is_cleared_by_kernel(static_cast<Block>(b));
    for (int r = 0; r < layout.ranks(); ++r) {
      Place& place = made->places_[b][r];
      place.bytes = layout.lazy_bytes(static_cast<Block>(b), r);
      if (place.bytes == 0) continue;
      if (made->here_[r]) {
        RONDO_TRY(place.memory, memory_registry().reserve_own(place.bytes, device));
      } else if (is_used(layout, made->here_, r)) {
        RONDO_TRY(place.memory, memory_registry().reserve_import(place.bytes, {&device, 1}));
      }
    }
  }
  return made;
}

void LazyBlocks::list_in(DeviceMemory& all, std::span<const int> process_of) {
  memory_ = &all;
  process_of_.assign(process_of.begin(), process_of.end());
  for (int b = 0; b < ConnectionLayout::kLazyBlocks; ++b)
    for (int r = 0; r < ranks(); ++r) {
      Place& place = places_[b][r];
      if (!here_[r] || place.bytes == 0) continue;
      const auto block = static_cast<Block>(b);
      std::function<Status()> refill;
      if (zeroed_by_host_[b]) refill = [this, block, r] { return zero(block, r); };
      place.listed = all.add_absent(r, place.memory.get(), place.bytes, std::move(refill));
    }
}

Status LazyBlocks::make_zeroed() {
  for (int b = 0; b < ConnectionLayout::kLazyBlocks; ++b)
    for (int r = 0; r < ranks() && zeroed_by_host_[b]; ++r)
      if (here_[r]) RONDO_CHECK_OK(allocate(static_cast<Block>(b), r));
  return ok_status();
}

Status LazyBlocks::need(Block block) {
  if (has_all_[block].load(std::memory_order_acquire)) return ok_status();
  const RelaxedCapture relaxed;
  if (memory_ != nullptr && !zeroed_by_host_[block]) memory_->make_room();
  std::lock_guard lock(mapping_);
  for (int r = 0; r < ranks(); ++r)
    if (here_[r]) RONDO_CHECK_OK(allocate(block, r));
  for (int r = 0; r < ranks(); ++r)
    if (!here_[r]) RONDO_CHECK_OK(map(block, r));
  has_all_[block].store(true, std::memory_order_release);
  return ok_status();
}

Status LazyBlocks::allocate(Block block, int rank) {
  assert(here_[rank]);
  const Place& place = places_[block][rank];
  if (place.bytes == 0) return ok_status();
  assert(memory_ != nullptr);
  std::lock_guard lock(allocating_);
  const Result<bool> made = memory_->allocate(place.listed);
  if (!made.ok())
    return fail(made.code(),
                "{}: {} bytes for {} of rank {}; NCCL_BUFFSIZE and NCCL_MAX_CTAS limit what "
                "connections take",
                made.error().text, place.bytes, kNames[block], rank);
  if (*made) RONDO_INFO(kInit, "rank {}: {} bytes for {}", rank, place.bytes, kNames[block]);
  return ok_status();
}

Status LazyBlocks::map(Block block, int rank) {
  Place& place = places_[block][rank];
  if (place.memory == nullptr || place.is_mapped) return ok_status();
  assert(ask_ && memory_ != nullptr);
  const auto what = static_cast<std::uint32_t>(block * ranks() + rank);
  RONDO_TRY(const MemoryHandle handle, ask_(rank, what));
  if (!handle.file)
    return fail(StatusCode::kInternalError, "{} of rank {} came without a file", kNames[block],
                rank);
  std::byte* const at = place.memory.get();
  RONDO_CHECK_OK(memory_registry().virtual_at(at)->bring_back(handle.file.get()));
  memory_->add_mapped(process_of_[rank], {MemoryNote::kLazyBlock, what}, at,
                      zeroed_by_host_[block]);
  place.is_mapped = true;
  return ok_status();
}

Status LazyBlocks::zero(Block block, int rank) const {
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  const Place& place = places_[block][rank];
  return zero_block(place.memory.get(), place.bytes, "zeroing slots");
}

Result<MemoryHandle> LazyBlocks::give(std::uint32_t what) {
  const auto all = static_cast<std::uint32_t>(ranks());
  const int rank = static_cast<int>(what % all);
  if (what / all >= ConnectionLayout::kLazyBlocks || !here_[rank])
    return fail(StatusCode::kInternalError, "block {} of rank {} was asked for here", what / all,
                rank);
  const auto block = static_cast<Block>(what / all);
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(allocate(block, rank));
  return memory_registry().export_range(places_[block][rank].memory.get(), 1);
}

Result<FabricSlots> FabricSlots::make(const ConnectionLayout& layout, int rank, int device) {
  FabricSlots made;
  made.rank_ = rank;
  made.device_ = device;
  made.bytes_ = layout.fabric_bytes(rank);
  made.of_rank_.resize(static_cast<std::size_t>(layout.ranks()));
  if (made.bytes_ == 0) return made;
  RONDO_TRY(EdgeMemory own, by_nvlink().allocate(made.bytes_, device));
  made.handle_ = std::bit_cast<GpuFabricHandle>(own.handle.plain.ipc);
  RONDO_CHECK_OK(
      zero_block(own.memory.get(), made.bytes_, "zeroing slots of NVLink between hosts"));
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
