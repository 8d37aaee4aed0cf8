// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/packed_memory.h"

#include <cassert>

namespace rondo::gpu {
namespace {

constexpr std::size_t kAllocation = 2 << 20, kLine = 128;

}  // namespace

PackedMemory& packed_memory() {
  static auto& all = *new PackedMemory;  // never destroyed: like memory_registry()
  return all;
}

Result<OwnMemory> PackedMemory::take(std::size_t bytes, int device) {
  assert(bytes <= kMaxBytes);
  const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
  std::lock_guard lock(mutex_);
  Allocation& newest = newest_[device];
  OwnMemory memory = newest.memory.lock();
  if (memory == nullptr || newest.used + whole > kAllocation) {
    RONDO_TRY(memory, memory_registry().allocate_own(kAllocation, device));
    newest = {memory, 0};
  }
  std::byte* const at = memory.get() + newest.used;
  newest.used += whole;
  return OwnMemory(std::move(memory), at);
}

Result<PackedMemory::Exported> PackedMemory::export_block(const OwnMemory& block) {
  Exported made;
  RONDO_TRY(made.handle, memory_registry().export_range(block.get(), 1));
  made.offset = reinterpret_cast<std::uint64_t>(block.get()) - made.handle.plain.base;
  return made;
}

Result<ImportedMemory> PackedMemory::import_block(const MemoryHandle& handle, std::uint64_t offset,
                                                  int device) {
  RONDO_TRY(ImportedMemory memory, memory_registry().import_memory(handle, {&device, 1}));
  if (offset >= handle.plain.bytes)
    return fail(StatusCode::kInternalError, "a block begins at byte {} of {}", offset,
                handle.plain.bytes);
  std::byte* const at = memory.get() + offset;
  return ImportedMemory(std::move(memory), at);
}

}  // namespace rondo::gpu
