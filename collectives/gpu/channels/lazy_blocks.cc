// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/lazy_blocks.h"

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

void LazyBlocks::list_in(DroppableMemory& all, std::span<const int> process_of) {
  droppable_ = &all;
  process_of_.assign(process_of.begin(), process_of.end());
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
  if (droppable_ != nullptr && !zeroed_by_host_[block]) droppable_->make_room();
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
  Place& place = places_[block][rank];
  std::lock_guard lock(allocating_);
  if (place.bytes == 0 || place.is_there) return ok_status();
  const auto memory = memory_registry().virtual_at(place.memory.get());
  const auto bring = [&] { return memory->bring_back(); };
  Status made = droppable_ != nullptr ? droppable_->with_room(bring) : bring();
  if (made.ok() && zeroed_by_host_[block]) made = zero(block, rank);
  if (!made.ok())
    return fail(made.code(),
                "{}: {} bytes for {} of rank {}; NCCL_BUFFSIZE and NCCL_MAX_CTAS limit what "
                "connections take",
                made.error().text, place.bytes, kNames[block], rank);
  RONDO_INFO(kInit, "rank {}: {} bytes for {}", rank, place.bytes, kNames[block]);
  std::function<Status()> refill;
  if (zeroed_by_host_[block]) refill = [this, block, rank] { return zero(block, rank); };
  if (droppable_ != nullptr)
    droppable_->add(rank, place.memory.get(), place.bytes, std::move(refill));
  place.is_there = true;
  return ok_status();
}

Status LazyBlocks::map(Block block, int rank) {
  Place& place = places_[block][rank];
  if (place.memory == nullptr || place.is_there) return ok_status();
  assert(ask_ && droppable_ != nullptr);
  const auto what = static_cast<std::uint32_t>(block * ranks() + rank);
  RONDO_TRY(const MemoryHandle handle, ask_(rank, what));
  if (!handle.file)
    return fail(StatusCode::kInternalError, "{} of rank {} came without a file", kNames[block],
                rank);
  std::byte* const at = place.memory.get();
  RONDO_CHECK_OK(memory_registry().virtual_at(at)->bring_back(handle.file.get()));
  droppable_->add_mapped(process_of_[rank], {MemoryNote::kLazyBlock, what}, at,
                         zeroed_by_host_[block]);
  place.is_there = true;
  return ok_status();
}

// On a stream of its own: kernels of other communicators may run meanwhile.
Status LazyBlocks::zero(Block block, int rank) const {
  const GpuApi& api = *gpu_api();
  const Place& place = places_[block][rank];
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  GpuStream stream = nullptr;
  RONDO_CHECK_OK(check(api.create_stream(&stream, 0), "cudaStreamCreate"));
  GpuError error = api.fill(place.memory.get(), 0, place.bytes, stream);
  if (error == kGpuSuccess) error = api.synchronize_stream(stream);
  api.destroy_stream(stream);
  return check(error, "zeroing slots");
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

}  // namespace rondo::gpu
