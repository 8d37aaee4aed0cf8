// SPDX-License-Identifier: Apache-2.0
// FabricSlots: the memory of a rank's connections and messages by NVLink to ranks of other hosts:
// its own block (ConnectionLayout::kFabric), and those of all other ranks of its clique, mapped by
// fabric handles.
//
// Guarantees: the own block is zeroed when make() returns, so a rank may let its kernels run once
// all ranks have returned from make(); an error leaves nothing mapped. A peer's block stays mapped
// while this object lives, also if that process has ended. Cost: one block of this rank and one
// mapping a peer; zeroing.
#pragma once

#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/plan/connection_layout.h"

namespace rondo::gpu {

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
