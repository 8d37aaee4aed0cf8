// SPDX-License-Identifier: Apache-2.0
// P2pCheck: whether what one GPU writes into another one's memory arrives there.
//
// A driver says which GPUs may use P2P, not that it works. If an IOMMU or PCIe's ACS redirects the
// traffic, writes are dropped or end in other memory, and reads return something else. Kernels
// would then wait without end, or return wrong sums. So before any kernel relies on P2P, each rank
// copies its mark into the block of every peer that it maps, looks for the peers' marks in its own
// block, and reads theirs back. A read back alone would not do: it may go the same wrong way.
//
// Guarantees: every wait ends. Cost: two small copies a peer, a stream; once a communicator.
//
//   P2pCheck check(device, blocks, pairs);
//   RONDO_CHECK_OK(check.write());                       // all processes; then they meet
//   RONDO_TRY(const auto broken, check.broken_pairs());  // all processes; then they meet
#pragma once

#include <cstdint>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

class P2pCheck {
 public:
  struct Block {
    std::byte* at = nullptr;  // its address here; at least bytes_for() bytes
    std::uint64_t mark = 0;   // differs from all others, also of earlier checks
  };
  // Indexes of blocks; own: on the device. Pairs of one `own` are next to each other.
  struct Pair {
    std::size_t own, peer;
  };
  // The beginning of a block: a mark by each rank, then what this one has read of each.
  static constexpr std::uint64_t bytes_for(std::size_t blocks) {
    return 2 * blocks * sizeof(std::uint64_t);
  }

  P2pCheck(int device, std::vector<Block> blocks, std::vector<Pair> pairs);
  ~P2pCheck();
  P2pCheck(const P2pCheck&) = delete;
  P2pCheck& operator=(const P2pCheck&) = delete;

  Status write();
  Result<std::vector<Pair>> broken_pairs();

 private:
  std::byte* word(std::size_t block, std::size_t number) const {
    return blocks_[block].at + number * sizeof(std::uint64_t);
  }
  Status copy(void* to, const void* from, std::size_t bytes, GpuCopy kind) const;
  Status finish() const;

  const GpuApi& api_;
  const int device_;
  const std::vector<Block> blocks_;
  const std::vector<Pair> pairs_;
  GpuStream stream_ = nullptr;
};

}  // namespace rondo::gpu
