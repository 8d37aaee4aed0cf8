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

SharedBlocks::SharedBlocks(MemoryExchange& exchange, std::vector<int> devices, int process)
    : exchange_(exchange), devices_(std::move(devices)), process_(process) {}

SharedBlocks::~SharedBlocks() = default;

std::optional<std::uint64_t> SharedBlocks::known_in(int process, const void* pointer,
                                                    std::size_t bytes) const {
  if (process == process_) return reinterpret_cast<std::uint64_t>(pointer);
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return 0;
  std::lock_guard lock(mutex_);
  const auto known = seen_.find({block->number, block->base, process});
  if (known == seen_.end()) return std::nullopt;
  return place(known->second, block->base, pointer);
}

Result<std::uint64_t> SharedBlocks::address_in(int process, const void* pointer, std::size_t bytes,
                                               const net::Deadline& deadline) {
  if (const auto known = known_in(process, pointer, bytes)) return *known;
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return std::uint64_t{0};
  RONDO_TRY(const std::uint64_t at, ask(process, *block, deadline));
  return place(at, block->base, pointer);
}

Result<std::uint64_t> SharedBlocks::ask(int process, const MemoryBlock& block,
                                        const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  const Key key{block.number, block.base, process};
  if (const auto known = seen_.find(key); known != seen_.end()) return known->second;
  const RelaxedCapture relaxed;
  std::uint64_t at = 0;
  if (const auto handle = memory_registry().export_block(block); handle.ok()) {
    const auto answered = exchange_.ask(process, {MemoryNote::kMap}, *handle, deadline);
    if (answered.ok()) {
      at = answered->address;
    } else if (is_no_answer(answered.code())) {
      return answered.error();
    } else {
      RONDO_INFO(kInit, "memory at {} is staged: {}", fmt::ptr(block.base), answered.error().text);
    }
  }
  seen_[key] = at;
  return at;
}

void SharedBlocks::block_ends(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  std::erase_if(seen_, [&](const auto& block) {
    if (std::get<0>(block.first) != number) return false;
    if (block.second != 0)  // a process that has ended has unmapped it
      (void)exchange_.ask(std::get<2>(block.first), {MemoryNote::kUnmap, 0, block.second}, {},
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
