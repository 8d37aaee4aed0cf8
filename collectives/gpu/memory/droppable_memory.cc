// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/droppable_memory.h"

#include "transport/memory/memory_registry.h"

namespace rondo::gpu {

void DroppableMemory::add(int rank, const std::byte* at, std::uint64_t bytes,
                          std::function<Status()> refill, std::function<Status()> let_go) {
  auto memory = memory_registry().virtual_at(at);
  std::lock_guard lock(mutex_);
  own_.push_back({rank, bytes, std::move(memory), std::move(refill), std::move(let_go)});
}

void DroppableMemory::add_kept(int rank, std::uint64_t bytes, std::function<Status()> refill) {
  std::lock_guard lock(mutex_);
  own_.push_back({rank, bytes, nullptr, std::move(refill), {}});
}

void DroppableMemory::add_mapped(int process, const MemoryNote::Question& question,
                                 const std::byte* at, bool has_content) {
  auto memory = memory_registry().virtual_at(at);
  if (!memory) return;
  std::lock_guard lock(mutex_);
  mapped_.push_back({process, question, std::move(memory), has_content});
}

Status DroppableMemory::drop(Which which) {
  const bool all = which == Which::kAll;
  std::lock_guard lock(mutex_);
  ++drops_;
  lends_ += all ? 0 : 1;
  for (const Mapped& block : mapped_)
    if (all || !block.has_content) RONDO_CHECK_OK(block.memory->drop());
  for (Own& block : own_) {
    if (!all && (block.has_content() || !block.memory)) continue;
    block.is_lent |= !all;
    block.is_dropped = true;
    if (!block.memory) continue;
    if (block.let_go) RONDO_CHECK_OK(block.let_go());
    RONDO_CHECK_OK(block.memory->drop());
  }
  return ok_status();
}

void DroppableMemory::ask_for_room(std::function<bool(bool urgent)> room) {
  std::lock_guard lock(mutex_);
  room_ = std::move(room);
}

bool DroppableMemory::asked_for_room(bool urgent) const {
  std::unique_lock lock(mutex_);
  const auto room = room_;
  lock.unlock();
  return room && room(urgent);
}

Status DroppableMemory::bring_back() {
  const auto allocate = [this]() -> Status {
    std::lock_guard lock(mutex_);
    for (const Own& block : own_)
      if (block.memory) RONDO_CHECK_OK(block.memory->bring_back());
    return ok_status();
  };
  RONDO_CHECK_OK(with_room(allocate));
  std::lock_guard lock(mutex_);
  for (const Own& block : own_)
    if (block.is_dropped && block.refill) RONDO_CHECK_OK(block.refill());
  for (Own& block : own_) block.is_dropped = block.is_lent = false;
  return ok_status();
}

// Without the mutex: the process that is asked may be asking this one at the same time.
Status DroppableMemory::bring_back_mapped(const Ask& handle_of) {
  std::unique_lock lock(mutex_);
  const std::vector<Mapped> all = mapped_;
  lock.unlock();
  for (const Mapped& block : all) {
    if (block.memory->is_mapped()) continue;
    RONDO_TRY(const MemoryHandle handle, handle_of(block.process, block.question));
    RONDO_CHECK_OK(handle.file ? block.memory->bring_back(handle.file.get())
                               : block.memory->bring_back());
  }
  return ok_status();
}

DroppableMemory::Bytes DroppableMemory::bytes(int rank) const {
  std::lock_guard lock(mutex_);
  Bytes sum;
  for (const Own& block : own_) {
    if (block.rank != rank || block.is_lent) continue;
    if (block.memory)
      sum.droppable += block.memory->bytes();
    else
      sum.kept += block.bytes;
  }
  return sum;
}

}  // namespace rondo::gpu
