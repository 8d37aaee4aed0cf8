#include "collectives/gpu/leader_memory.h"

#include <chrono>

#include "base/atomics.h"
#include "base/log.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr auto kBriefly = std::chrono::seconds(5);  // for an answer that the leader has at hand

// Where the leader sees `pointer` of the block at `base` that it has mapped; 0: it could not.
std::uint64_t place(std::uint64_t in_leader, const std::byte* base, const void* pointer) {
  if (in_leader == 0) return 0;
  return in_leader + static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - base);
}

}  // namespace

LeaderMemory::LeaderMemory(ControlSegment& segment, MemoryExchange& exchange,
                           DroppableMemory& droppable, std::vector<int> devices, int process)
    : segment_(segment),
      exchange_(exchange),
      droppable_(droppable),
      devices_(std::move(devices)),
      process_(process) {}

LeaderMemory::~LeaderMemory() {
  imported_.clear();
  own_staging_.reset();  // it may tell listeners, of which this is one
}

// ---- whoever needs memory ----

Result<std::byte*> LeaderMemory::staging(const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (staging_ != nullptr) return staging_;
  const RelaxedCapture relaxed;
  if (leads()) return make_staging();
  RONDO_TRY(const auto reply, exchange_.ask(0, {MemoryNote::kStaging}, {}, deadline));
  RONDO_TRY(mapped_staging_, memory_registry().import_memory(reply.handle, devices_));
  staging_ = mapped_staging_.get();
  droppable_.add_mapped(0, {MemoryNote::kStaging}, staging_);
  return staging_;
}

std::optional<std::uint64_t> LeaderMemory::known_in_leader(const void* pointer,
                                                           std::size_t bytes) const {
  if (leads()) return reinterpret_cast<std::uint64_t>(pointer);
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return 0;
  std::lock_guard lock(mutex_);
  const auto known = in_leader_.find({block->number, block->base});
  if (known == in_leader_.end()) return std::nullopt;
  return place(known->second, block->base, pointer);
}

Result<std::uint64_t> LeaderMemory::in_leader(const void* pointer, std::size_t bytes,
                                              const net::Deadline& deadline) {
  if (const auto known = known_in_leader(pointer, bytes)) return *known;
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return std::uint64_t{0};
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  std::uint64_t address = 0;
  if (const auto handle = memory_registry().export_block(*block); handle.ok()) {
    const auto answered = exchange_.ask(0, {MemoryNote::kMap}, *handle, deadline);
    if (answered.ok()) {
      address = answered->address;
    } else if (answered.status() == Status::kTimeout || answered.status() == Status::kRemoteError ||
               answered.status() == Status::kInvalidUsage) {
      return answered.error();  // the leader is gone, or this rank gave up
    } else {
      RONDO_INFO(kInit, "memory at {} is staged: {}", fmt::ptr(block->base), answered.error().text);
    }
  }
  in_leader_[{block->number, block->base}] = address;
  return place(address, block->base, pointer);
}

void LeaderMemory::block_ends(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  std::erase_if(in_leader_, [&](const auto& block) {
    if (block.first.first != number) return false;
    if (block.second != 0)  // a leader that is gone has unmapped
      (void)exchange_.ask(0, {MemoryNote::kUnmap, 0, block.second}, {},
                          net::Deadline::of(kBriefly));
    return true;
  });
}

// ---- the leader ----

Result<std::byte*> LeaderMemory::make_staging() {
  if (staging_ != nullptr) return staging_;
  auto made = memory_registry().allocate_own(staging_bytes(), devices_[0]);
  if (!made.ok())
    return fail(
        made.status(),
        "{}: {} bytes of staging for {} ranks on one GPU; RONDO_GPU_STAGING sets how much a "
        "rank gets",
        made.error().text, staging_bytes(), segment_.ranks());
  own_staging_ = std::move(*made);
  staging_ = own_staging_.get();
  droppable_.add(0, staging_, staging_bytes());
  HostAtomics::store_release(segment_.words().staging, reinterpret_cast<std::uint64_t>(staging_));
  return staging_;
}

Result<MemoryHandle> LeaderMemory::answer(MemoryNote& asked, const MemoryHandle& with) {
  std::lock_guard lock(mutex_);
  if (asked.kind == MemoryNote::kStaging) {
    RONDO_TRY(const std::byte* const at, make_staging());
    return memory_registry().export_range(at, staging_bytes());
  }
  if (asked.kind == MemoryNote::kMap) {
    RONDO_TRY(ImportedMemory memory, memory_registry().import_memory(with, devices_));
    asked.address = reinterpret_cast<std::uint64_t>(memory.get());
    imported_.emplace(asked.address, std::move(memory));
  } else if (const auto found = imported_.find(asked.address); found != imported_.end()) {
    imported_.erase(found);
  }
  return MemoryHandle{};
}

}  // namespace rondo::gpu
