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

void DroppableMemory::add_mapped(int process, const MemoryNote::Question& question,
                                 const std::byte* at) {
  auto memory = memory_registry().virtual_at(at);
  if (!memory) return;
  std::lock_guard lock(mutex_);
  mapped_.push_back({process, question, std::move(memory)});
}

Status DroppableMemory::drop() {
  std::lock_guard lock(mutex_);
  for (const Mapped& block : mapped_) RONDO_CHECK_OK(block.memory->drop());
  for (const Own& block : own_) {
    if (!block.memory) continue;
    if (block.let_go) RONDO_CHECK_OK(block.let_go());
    RONDO_CHECK_OK(block.memory->drop());
  }
  return ok_status();
}

Status DroppableMemory::bring_back() {
  std::lock_guard lock(mutex_);
  for (const Own& block : own_)
    if (block.memory) RONDO_CHECK_OK(block.memory->bring_back());
  for (const Own& block : own_)
    if (block.refill) RONDO_CHECK_OK(block.refill());
  return ok_status();
}

// Without the mutex: the process that is asked may be asking this one at the same time.
Status DroppableMemory::bring_back_mapped(const Ask& handle_of) {
  std::unique_lock lock(mutex_);
  const std::vector<Mapped> all = mapped_;
  lock.unlock();
  for (const Mapped& block : all) {
    RONDO_TRY(const MemoryHandle handle, handle_of(block.process, block.question));
    if (!handle.file)
      return fail(StatusCode::kInternalError, "memory of process {} came back without a file",
                  block.process);
    RONDO_CHECK_OK(block.memory->bring_back(handle.file.get()));
  }
  return ok_status();
}

DroppableMemory::Bytes DroppableMemory::bytes(int rank) const {
  std::lock_guard lock(mutex_);
  Bytes sum;
  for (const Own& block : own_) {
    if (block.rank != rank) continue;
    if (block.memory)
      sum.droppable += block.memory->bytes();
    else
      sum.kept += block.bytes;
  }
  return sum;
}

}  // namespace rondo::gpu
