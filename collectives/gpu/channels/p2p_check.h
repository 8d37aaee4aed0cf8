// SPDX-License-Identifier: Apache-2.0
// P2pCheck: whether what kernels of one GPU write into another one's memory arrives there, in
// order.
//
// A driver says which GPUs may use P2P, not that it works. If an IOMMU or PCIe's ACS redirects the
// traffic, writes are dropped or end in other memory, and reads return something else; and kernels
// may fail where copy engines do not. Kernels would then wait without end, or return wrong sums. So
// before any kernel relies on P2P, one tries what they do (p2p_probe.h): each rank writes lines of
// data and a flag into the block of every peer that it maps, and looks for those of its peers, in
// its own block and in theirs. Kernels of two ranks need not run at the same time: after all have
// met, a second one looks at what has arrived.
//
// Guarantees: every wait ends. Cost: two kernels and two copies of some words, a stream, and up to
// 100 ms if a peer's kernel comes late; once a communicator.
//
//   P2pCheck check(device, blocks, pairs);
//   RONDO_CHECK_OK(check.write());                       // all processes; then they meet
//   RONDO_TRY(const auto broken, check.broken_pairs());  // all processes; then they meet
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "kernels/cuda/p2p_probe_args.h"

namespace rondo::gpu {

class P2pCheck {
 public:
  struct Block {
    std::byte* at = nullptr;  // its address here; at least bytes_for() bytes
    std::uint64_t mark = 0;   // differs from all others, also of earlier checks
  };
  // Indexes of blocks; own: on the device.
  struct Pair {
    std::size_t own, peer;
  };
  // The beginning of a block.
  static constexpr std::uint64_t bytes_for(std::size_t blocks) {
    return cuda::P2pProbeArgs::bytes_for(blocks);
  }

  P2pCheck(int device, std::vector<Block> blocks, std::vector<Pair> pairs);
  ~P2pCheck();
  P2pCheck(const P2pCheck&) = delete;
  P2pCheck& operator=(const P2pCheck&) = delete;

  Status write();
  Result<std::vector<Pair>> broken_pairs();

 private:
  using ProbeResults = std::vector<std::uint64_t>;  // by pair: P2pProbeArgs::Result
  Result<ProbeResults> probe(bool sends) const;
  Status launch(std::span<const Pair> pairs, bool sends) const;
  std::uint64_t result_at(std::size_t peer) const {
    return cuda::P2pProbeArgs::result_at(blocks_.size(), peer);
  }
  Status finish() const;

  const GpuApi& api_;
  const int device_;
  const std::vector<Block> blocks_;
  const std::vector<Pair> pairs_;
  GpuStream stream_ = nullptr;
  ProbeResults at_once_;  // of the kernel that also sends
};

}  // namespace rondo::gpu
