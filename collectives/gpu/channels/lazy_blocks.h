// SPDX-License-Identifier: Apache-2.0
// Device memory of slots that is not made with the connections: LazyBlocks, and for NVLink between
// hosts FabricSlots.
//
// LazyBlocks: slots of each protocol, and staging of shared direct kernels (connection_layout.h).
// Each is allocated with the first call that uses it. Before, only its addresses are reserved, so
// the ends in device memory and captured graphs never change. New lines (LL, LL128, LL push) are
// cleared by a kernel, on the stream of that call (clear_lines.h). Where devices do not meet by
// barriers, slots of lines are allocated and zeroed at init; other processes map them with their
// first use.
//
// Each process allocates the blocks of its own ranks and asks the other processes for theirs. Their
// watch threads allocate these if they are not there yet (process_meeting.h), so a rank's first
// call waits for no other rank's call. Guarantees: blocks are listed for ncclCommSuspend
// (device_memory.h); every request ends with its deadline; after an error, need() may be called
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

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/memory/device_memory.h"
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

  // Before the first need(), if any rank has such blocks. process_of: by rank; empty if all are in
  // this process, without `ask`.
  void list_in(DeviceMemory& all, std::span<const int> process_of);
  void ask_by(Ask ask) { ask_ = std::move(ask); }
  // Makes this process's blocks of lines that no kernel clears, at init: they have to be zeroed on
  // a stream, and a kernel that waits for other ranks would hold that up later.
  Status make_zeroed();

  // Makes the block of every rank that this process uses. Call before each launch that uses it.
  Status need(Block block);
  // For launches, in the order of calls: whether the lines of a block are clear when the next
  // kernel runs; that kernels launched so far clear them; how often memory was lent, plus 1.
  bool is_clear(Block block) const {
    return !cleared_by_kernel_[block] || cleared_at_[block] == memory_->drops() + 1;
  }
  void set_clear(Block block) { cleared_at_[block] = memory_->drops() + 1; }
  std::uint64_t generation() const { return memory_->lends() + 1; }
  std::uint64_t bytes(Block block, int rank) const { return places_[block][rank].bytes; }

  // The answer to another process, on the watch thread.
  Result<MemoryHandle> give(std::uint32_t what);

 private:
  struct Place {
    std::shared_ptr<std::byte> memory;  // its address range
    std::uint64_t bytes = 0;
    std::size_t listed = 0;  // own blocks: number in DeviceMemory
    bool is_mapped = false;  // others' blocks
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
  DeviceMemory* memory_ = nullptr;
  std::vector<int> process_of_;
  Ask ask_;
  std::array<std::atomic<bool>, ConnectionLayout::kLazyBlocks> has_all_{};
  std::mutex mapping_;     // guards is_mapped; held while others are asked
  std::mutex allocating_;  // of own blocks; never held while others are asked
};

// FabricSlots: the memory of a rank's connections and messages by NVLink to ranks of other hosts:
// its own block (ConnectionLayout::kFabric), and those of all other ranks of its clique, mapped by
// fabric handles.
//
// Guarantees: the own block is zeroed when make() returns, so a rank may let its kernels run once
// all ranks have returned from make(); an error leaves nothing mapped. A peer's block stays mapped
// while this object lives, also if that process has ended. Cost: one block of this rank and one
// mapping a peer; zeroing.
class FabricSlots {
 public:
  // layout: of this rank's host. No memory if the rank has no such connection. The device's context
  // must be current.
  static Result<FabricSlots> make(const ConnectionLayout& layout, int rank, int device);

  const GpuFabricHandle& handle() const { return handle_; }  // for the peers
  // handles: by rank.
  Status map(const ConnectionLayout& layout, std::span<const GpuFabricHandle> handles);
  // Start of a rank's block in this process; null: it is not mapped.
  std::byte* at(int rank) const { return of_rank_[static_cast<std::size_t>(rank)].get(); }
  std::uint64_t bytes() const { return bytes_; }  // of the own block

 private:
  FabricSlots() = default;
  int rank_ = 0, device_ = 0;
  std::uint64_t bytes_ = 0;
  GpuFabricHandle handle_{};
  std::vector<MappedMemory> of_rank_;
};

}  // namespace rondo::gpu
