// SPDX-License-Identifier: Apache-2.0
// The parts of a call's blocks that a CTA copies into staging and out of it (StagedCall).
//
// Blocks are contiguous in a rank's buffer; the CTA's parts of them are contiguous in its slice of
// staging. Guarantees: the CTAs' parts cover every block; a CTA's part is at the same position of
// all blocks, so buffers may be used in place. Cost: one read and one write of each byte, by warps
// that are distributed over the blocks.
#pragma once

#include "kernels/cuda/byte_copy.h"
#include "kernels/cuda/device.h"

namespace rondo::cuda {

// A part of a block, in units (elements, bytes).
struct Part {
  std::uint64_t begin, count;
};
RONDO_FN inline Part part_of_cta(std::uint64_t units, std::uint64_t part) {
  const std::uint64_t begin = device::cta_index() * part;
  if (begin >= units) return {begin, 0};
  return {begin, units - begin < part ? units - begin : part};
}

// Warps of a CTA are distributed over the blocks round robin: this thread's first block, and its
// share.
struct BlockDeal {
  int block, step;
  Share share;
};
RONDO_FN inline BlockDeal deal_warps(int blocks, unsigned threads) {
  const auto warps = static_cast<int>(threads / device::kWarp);
  const auto warp = static_cast<int>(device::warp_index());
  const int step = blocks < warps ? blocks : warps;
  const int members = (warps - warp % step + step - 1) / step;
  const auto lanes = static_cast<std::uint64_t>(device::kWarp);
  return {warp % step,
          step,
          {lanes * static_cast<unsigned>(warp / step) + device::lane_index(),
           lanes * static_cast<unsigned>(members)}};
}

// The number of vectors that a thread of these launches has to move.
inline constexpr int kPartInFlight = 4;

// Copies `bytes` bytes of each block. Not inlined: dozens of kernels call it, before and after
// their main work.
RONDO_FN RONDO_NO_INLINE inline void copy_parts(const std::byte* from, std::uint64_t from_step,
                                                std::byte* to, std::uint64_t to_step, int blocks,
                                                std::uint64_t bytes, unsigned threads) {
  const BlockDeal deal = deal_warps(blocks, threads);
  RONDO_NO_UNROLL
  for (int b = deal.block; b < blocks; b += deal.step) {
    const auto block = static_cast<unsigned>(b);
    copy_bytes<kPartInFlight>(
        from + block * from_step, bytes, 1, [&](unsigned) { return to + block * to_step; },
        deal.share);
  }
}

}  // namespace rondo::cuda
