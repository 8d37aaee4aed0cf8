// SPDX-License-Identifier: Apache-2.0
// LazyBlocks: slots of each protocol, and staging of shared direct kernels (connection_layout.h).
// Each is allocated with the first call that uses it. Before, only its addresses are reserved, so
// the ends in device memory and captured graphs never change. New lines (LL, LL128, LL push) are
// cleared by a kernel, on the stream of that call (clear_lines.h). Where devices do not meet by
// barriers, slots of lines are allocated and zeroed at init; other processes map them with their
// first use.
//
// Each process allocates the blocks of its own ranks and asks the other processes for theirs. Their
// watch threads allocate these if they are not there yet (memory_exchange.h), so a rank's first
// call waits for no other rank's call. Guarantees: a block that is there is listed for
// ncclCommSuspend; every request ends with its deadline; after an error, need() may be called
// again. Thread-safe. Cost: one load once the block is there; before, some driver calls per rank,
// and a round trip per rank of another process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collectives/gpu/memory/droppable_memory.h"
#include "collectives/gpu/plan/connection_layout.h"

namespace rondo::gpu {

class LazyBlocks {
 public:
  using Block = ConnectionLayout::Block;
  // Returns a block of a rank of another process. what: for the owner's give().
  using Ask = std::function<Result<MemoryHandle>(int rank, std::uint32_t what)>;

  // here: by rank; the ranks of this process, all on `device`.
  static Result<std::unique_ptr<LazyBlocks>> reserve(const ConnectionLayout& layout, int device,
                                                     std::vector<bool> here);
  LazyBlocks(const LazyBlocks&) = delete;
  LazyBlocks& operator=(const LazyBlocks&) = delete;

  // Address in this process; null: no rank of this process uses it.
  std::byte* at(Block block, int rank) const { return places_[block][rank].memory.get(); }

  // Before the first need(). process_of: by rank; empty if all are in this process, without `ask`.
  void list_in(DroppableMemory& all, std::span<const int> process_of);
  void ask_by(Ask ask) { ask_ = std::move(ask); }
  // Makes this process's blocks of lines that no kernel clears, at init: they have to be zeroed on
  // a stream, and a kernel that waits for other ranks would hold that up later.
  Status make_zeroed();

  // Makes the block of every rank that this process uses. Call before each launch that uses it.
  Status need(Block block);
  // For launches, in the order of calls: whether the lines of a block are clear when the next
  // kernel runs; that kernels launched so far clear them; how often memory was lent, plus 1.
  bool is_clear(Block block) const {
    return !cleared_by_kernel_[block] || cleared_at_[block] == droppable_->drops() + 1;
  }
  void set_clear(Block block) { cleared_at_[block] = droppable_->drops() + 1; }
  std::uint64_t generation() const { return droppable_->lends() + 1; }
  std::uint64_t bytes(Block block, int rank) const { return places_[block][rank].bytes; }

  // The answer to another process, on the watch thread.
  Result<MemoryHandle> give(std::uint32_t what);

 private:
  struct Place {
    std::shared_ptr<std::byte> memory;  // its address range
    std::uint64_t bytes = 0;
    bool is_there = false;
  };
  LazyBlocks(int device, std::vector<bool> here) : device_(device), here_(std::move(here)) {}
  int ranks() const { return static_cast<int>(here_.size()); }
  Status allocate(Block block, int rank);
  Status map(Block block, int rank);
  Status zero(Block block, int rank) const;

  const int device_;
  const std::vector<bool> here_;                                          // by rank
  std::array<std::vector<Place>, ConnectionLayout::kLazyBlocks> places_;  // by rank
  std::array<bool, ConnectionLayout::kLazyBlocks> zeroed_by_host_{}, cleared_by_kernel_{};
  std::array<std::uint64_t, ConnectionLayout::kLazyBlocks> cleared_at_{};  // drops so far, plus 1
  DroppableMemory* droppable_ = nullptr;
  std::vector<int> process_of_;
  Ask ask_;
  std::array<std::atomic<bool>, ConnectionLayout::kLazyBlocks> has_all_{};
  std::mutex mapping_;     // guards is_there of others' blocks; held while others are asked
  std::mutex allocating_;  // guards is_there of own blocks; never held while others are asked
};

}  // namespace rondo::gpu
