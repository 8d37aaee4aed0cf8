// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/leader_memory.h"

#include "base/atomics.h"
#include "collectives/gpu/memory/droppable_memory.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

LeaderMemory::LeaderMemory(ControlSegment& segment, MemoryExchange& exchange,
                           DroppableMemory& droppable, int device, int process)
    : segment_(segment),
      exchange_(exchange),
      droppable_(droppable),
      device_(device),
      process_(process) {}

Result<std::byte*> LeaderMemory::staging(const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (staging_ != nullptr) return staging_;
  const RelaxedCapture relaxed;
  droppable_.make_room();
  if (leads()) return make_staging();
  RONDO_TRY(const auto reply, exchange_.ask(0, {MemoryNote::kStaging}, {}, deadline));
  RONDO_TRY(mapped_staging_, memory_registry().import_memory(reply.handle, {&device_, 1}));
  staging_ = mapped_staging_.get();
  droppable_.add_mapped(0, {MemoryNote::kStaging}, staging_);
  return staging_;
}

Result<std::byte*> LeaderMemory::make_staging() {
  if (staging_ != nullptr) return staging_;
  auto made = droppable_.with_room(
      [&] { return memory_registry().allocate_own(staging_bytes(), device_); });
  if (!made.ok())
    return fail(
        made.code(),
        "{}: {} bytes of staging for {} ranks on one GPU; RONDO_GPU_STAGING sets how much a "
        "rank gets",
        made.error().text, staging_bytes(), segment_.ranks());
  own_staging_ = std::move(*made);
  staging_ = own_staging_.get();
  droppable_.add(0, staging_, staging_bytes());
  HostAtomics::store_release(segment_.words().staging, reinterpret_cast<std::uint64_t>(staging_));
  return staging_;
}

Result<MemoryHandle> LeaderMemory::answer() {
  std::lock_guard lock(mutex_);
  RONDO_TRY(const std::byte* const at, make_staging());
  return memory_registry().export_range(at, staging_bytes());
}

}  // namespace rondo::gpu
