#include "collectives/gpu/shared_blocks.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr auto kBriefly = std::chrono::seconds(5);  // for an answer that is available at once

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

SharedBlocks::SharedBlocks(MemoryExchange& exchange, std::vector<int> devices, int process,
                           std::vector<int> process_of)
    : exchange_(exchange),
      devices_(std::move(devices)),
      process_(process),
      process_of_(std::move(process_of)) {}

SharedBlocks::~SharedBlocks() = default;

std::optional<std::uint64_t> SharedBlocks::known_in(int process, const void* pointer,
                                                    std::size_t bytes) const {
  if (process == process_) return reinterpret_cast<std::uint64_t>(pointer);
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return 0;
  std::lock_guard lock(mutex_);
  const auto known = seen_.find({block->number, block->base, process});
  if (known == seen_.end()) return std::nullopt;
  return place(known->second.at, block->base, pointer);
}

Result<std::uint64_t> SharedBlocks::address_in(int process, const void* pointer, std::size_t bytes,
                                               const net::Deadline& deadline) {
  if (const auto known = known_in(process, pointer, bytes)) return *known;
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return std::uint64_t{0};
  RONDO_TRY(const Seen seen, ask(process, *block, deadline));
  return place(seen.at, block->base, pointer);
}

Status SharedBlocks::addresses_in_all(const void* pointer, std::size_t bytes,
                                      const net::Deadline& deadline,
                                      std::span<std::uint64_t> by_process) {
  std::fill(by_process.begin(), by_process.end(), 0);
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return ok_status();
  for (std::size_t p = 0; p < by_process.size(); ++p) {
    if (static_cast<int>(p) == process_) {
      by_process[p] = reinterpret_cast<std::uint64_t>(pointer);
      continue;
    }
    RONDO_TRY(const Seen seen, ask(static_cast<int>(p), *block, deadline));
    const bool several = std::count(process_of_.begin(), process_of_.end(), p) > 1;
    if (!several || !seen.by_first_gpu) by_process[p] = place(seen.at, block->base, pointer);
  }
  return ok_status();
}

Result<SharedBlocks::Seen> SharedBlocks::ask(int process, const MemoryBlock& block,
                                             const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  const Key key{block.number, block.base, process};
  if (const auto known = seen_.find(key); known != seen_.end()) return known->second;
  const RelaxedCapture relaxed;
  Seen seen;
  if (const auto handle = memory_registry().export_block(block); handle.ok()) {
    const auto answered = exchange_.ask(process, {MemoryNote::kMap}, *handle, deadline);
    if (answered.ok()) {
      seen = {answered->address, handle->plain.kind == PlainHandle::kIpc};
    } else if (is_no_answer(answered.code())) {
      return answered.error();
    } else {
      RONDO_INFO(kInit, "memory at {} is staged: {}", fmt::ptr(block.base), answered.error().text);
    }
  }
  seen_[key] = seen;
  return seen;
}

void SharedBlocks::block_ends(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  std::erase_if(seen_, [&](const auto& block) {
    if (std::get<0>(block.first) != number) return false;
    if (block.second.at != 0)  // a process that has ended has unmapped it
      (void)exchange_.ask(std::get<2>(block.first), {MemoryNote::kUnmap, 0, block.second.at}, {},
                          net::Deadline::of(kBriefly));
    return true;
  });
}

Result<MemoryHandle> SharedBlocks::answer(MemoryNote& asked, const MemoryHandle& with) {
  std::lock_guard lock(imported_mutex_);
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
