// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/internode/internode_memory.h"

#include "base/seconds.h"

namespace rondo::gpu {
namespace {

constexpr std::int64_t kBetweenLooksNs = 1'000'000;

}  // namespace

InternodeMemory::InternodeMemory(Parts parts)
    : connections_(std::move(parts.connections)),
      segment_(std::move(parts.meeting.segment)),
      processes_(static_cast<int>(parts.meeting.sockets.size())) {
  around_.process_of = std::move(parts.process_of);
  around_.near = std::move(parts.near);
  exchange_ = std::make_unique<MemoryExchange>(*segment_, parts.process, around_.process_of,
                                               std::move(parts.meeting.sockets));
  for (int p = 0; p < processes_; ++p) sockets_.push_back({exchange_->fd(p), POLLIN, 0});
  slots_ = std::make_unique<MessageSlots>(*exchange_, memory_, around_, std::move(parts.devices),
                                          parts.process, parts.staging_bytes);
}

Result<MessageSlots::Slots> InternodeMemory::slots(int from, int to, bool sends,
                                                   const net::Deadline& deadline,
                                                   DirectArena* arena) {
  const std::lock_guard lock(mutex_);
  return slots_->between(from, to, sends, deadline, arena);
}

bool InternodeMemory::serve() {
  if (processes_ < 2) return false;
  const std::unique_lock lock(serving_, std::try_to_lock);
  const std::int64_t now = now_ns();
  if (!lock.owns_lock() || now - served_at_ns_ < kBetweenLooksNs) return false;
  served_at_ns_ = now;
  if (::poll(sockets_.data(), sockets_.size(), 0) <= 0) return false;
  for (int p = 0; p < processes_; ++p)
    if (sockets_[static_cast<std::size_t>(p)].revents != 0)
      exchange_->serve(p, [this](MemoryNote& asked, const MemoryHandle&) { return answer(asked); });
  return true;
}

Result<MemoryHandle> InternodeMemory::answer(const MemoryNote& asked) {
  if (asked.kind != MemoryNote::kSlots)
    return fail(StatusCode::kInternalError, "ranks on GPUs of several hosts share slots alone");
  return slots_->answer(asked);
}

GpuMemoryUse InternodeMemory::memory(int rank) const {
  const DroppableMemory::Bytes of_messages = memory_.bytes(rank);
  return {.device = connections_->layout().bytes(rank) + of_messages.droppable + of_messages.kept,
          .pinned = connections_->pinned_bytes(rank) + slots_->pinned_bytes(rank)};
}

}  // namespace rondo::gpu
