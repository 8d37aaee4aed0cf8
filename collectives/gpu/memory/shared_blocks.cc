// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/shared_blocks.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr int kLeader = 0;
constexpr auto kBriefly = std::chrono::seconds(5);    // for an answer that is available at once
constexpr auto kCloseSoon = std::chrono::seconds(1);  // until the answer that memory stays mapped

// Address of `pointer` where the block at `base` starts at `at`; 0: no access.
std::uint64_t place(std::uint64_t at, const std::byte* base, const void* pointer) {
  if (at == 0) return 0;
  return at + static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - base);
}

// The process has ended, or this rank has given up: the memory is not the reason.
bool is_no_answer(StatusCode status) {
  return status == StatusCode::kTimeout || status == StatusCode::kRemoteError ||
         status == StatusCode::kInvalidUsage;
}

}  // namespace

SharedBlocks::SharedBlocks(MemoryExchange& exchange, int device, int process,
                           std::function<Calls()> running)
    : exchange_(exchange),
      device_(device),
      leads_(process == kLeader),
      running_(std::move(running)) {
  begin_listening();
}

SharedBlocks::~SharedBlocks() { end_listening(); }

Result<std::uint64_t> SharedBlocks::at_leader(const void* pointer, std::size_t bytes,
                                              const std::function<net::Deadline()>& deadline) {
  if (leads_) return reinterpret_cast<std::uint64_t>(pointer);
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return std::uint64_t{0};
  assert(pointer >= block->base);
  std::lock_guard lock(mutex_);
  const Key key{block->number, block->base};
  auto known = seen_.find(key);
  if (known == seen_.end()) {
    RONDO_TRY(const Seen seen, ask(*block, deadline()));
    known = seen_.emplace(key, seen).first;
  }
  return place(known->second.at, block->base, pointer);
}

Result<SharedBlocks::Seen> SharedBlocks::ask(const MemoryBlock& block,
                                             const net::Deadline& deadline) {
  const RelaxedCapture relaxed;
  const auto handle = memory_registry().export_block(block);
  if (!handle.ok()) return Seen{};
  const auto answered = exchange_.ask(kLeader, {MemoryNote::kMap}, *handle, deadline);
  if (answered.ok()) return Seen{answered->address, handle->plain.kind == PlainHandle::kIpc};
  if (is_no_answer(answered.code())) return answered.error();
  RONDO_INFO(kInit, "memory at {} is staged: {}", fmt::ptr(block.base), answered.error().text);
  return Seen{};
}

bool SharedBlocks::block_ends(std::uint64_t number) {
  std::vector<Seen> reported;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(seen_, [&](const auto& block) {
      if (block.first.first != number) return false;
      if (block.second.at != 0) reported.push_back(block.second);
      return true;
    });
  }
  const RelaxedCapture relaxed;
  bool unmapped = true;
  for (const Seen& seen : reported) {
    const auto answered =
        exchange_.ask(kLeader, {MemoryNote::kUnmap, 0, seen.at}, {}, net::Deadline::of(kBriefly));
    // A process that has ended has unmapped it. What it maps from a file keeps the memory itself.
    if (answered.ok() || answered.code() == StatusCode::kRemoteError || !seen.by_first_gpu)
      continue;
    RONDO_INFO(kInit, "rank 0's process still maps memory that has ended: {}",
               answered.error().text);
    unmapped = false;
  }
  return unmapped;
}

std::optional<Result<MemoryHandle>> SharedBlocks::answer(MemoryNote& asked,
                                                         const MemoryHandle& with) {
  std::lock_guard lock(imported_mutex_);
  if (asked.kind == MemoryNote::kMap) return map(asked, with);
  return unmap(asked.address);
}

Result<MemoryHandle> SharedBlocks::map(MemoryNote& asked, const MemoryHandle& with) {
  RONDO_TRY(ImportedMemory memory, memory_registry().import_memory(with, {&device_, 1}));
  asked.address = reinterpret_cast<std::uint64_t>(memory.get());
  const bool by_ipc = with.plain.kind == PlainHandle::kIpc;
  imported_.emplace(asked.address, Imported{std::move(memory), by_ipc});
  return MemoryHandle{};
}

std::optional<Result<MemoryHandle>> SharedBlocks::unmap(std::uint64_t at) {
  const auto is_asked = [at](const Ended& one) { return one.at == at && one.is_asked; };
  if (std::none_of(ended_.begin(), ended_.end(), is_asked)) {
    auto found = imported_.extract(at);
    if (!found) return MemoryHandle{};
    assert(found.mapped().memory != nullptr);
    ended_.push_back({at,
                      std::move(found.mapped().memory),
                      running_(),
                      found.mapped().by_ipc,
                      {},
                      std::chrono::steady_clock::now() + kCloseSoon});
  }
  give_up_unused();
  const auto asked = std::find_if(ended_.begin(), ended_.end(), is_asked);
  if (asked == ended_.end()) return MemoryHandle{};
  if (asked->memory == nullptr && asked->open.expired()) {
    ended_.erase(asked);
    return MemoryHandle{};
  }
  if (std::chrono::steady_clock::now() < asked->answer_by) return std::nullopt;
  asked->is_asked = false;
  return fail(StatusCode::kTimeout, "its process has unfinished work");
}

bool SharedBlocks::unmap_ended() {
  std::lock_guard lock(imported_mutex_);
  return give_up_unused();
}

bool SharedBlocks::give_up_unused() {
  for (Ended& one : ended_) {
    if (one.memory == nullptr) continue;
    if (const State calls = one.calls(); calls != State::kRun)
      one.open = MemoryRegistry::unmap(std::move(one.memory), calls == State::kOver);
  }
  std::erase_if(ended_, [](const Ended& one) { return one.memory == nullptr && !one.is_asked; });
  return !ended_.empty();
}

}  // namespace rondo::gpu
