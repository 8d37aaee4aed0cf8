// SPDX-License-Identifier: Apache-2.0
// The amounts of data in flight in the kernels over connections and over multicast memory: one
// table, to be tuned in the first hour on a new GPU. Each value can be set with -D of the name in
// capitals, because it decides registers or the layout of lines. (The bytes of a Simple slot are
// set at run time, by NCCL_BUFFSIZE.)
//
// Predictions are for one CTA of 576 workers, computed from bytes in flight, 0.9 us per load under
// load, 0.2 us from one job to the next, and 0.3 us to issue 64 KiB of stores. The page
// docs/internals/gpu-choices.md compares them with one H200.
//
//   Simple, copy     8 vectors per thread, 72 KiB in flight: a slot of 64 KiB is one batch, 1.4 us
//                    per job: 47 GB/s.
//   Simple, f32 sum  8 vectors of 2 operands (10 to 14 loads in flight, as ptxas places them): a
//                    slot is one batch, 1.7 us per job: 38 GB/s. With 4 vectors: two batches, 2.6
//                    us, 25 GB/s.
//   LL               4 lines per thread: a job of 2048 lines (a slot) is one batch of 512 threads,
//                    which waits for its loads once: 16 KiB in 0.9 us, 18 GB/s. One H200 sent 6.2
//                    GB/s so (bench/results/h200/roof_0c3f96bb.txt: ring.LL-1 64MiB CTA), on which
//                    the cost model is built (device_rates.h), and 2.9 GB/s before
//                    (bench/results/h200/roof.txt: ring.LL-1 2MiB CTA): 1024 lines by 128 threads,
//                    in two batches.
//   LL128            a warp waits for 16 lines, 4 per lane, at once, so a slot of 256 lines is one
//                    batch of 16 warps. Copies then load 4 lines per lane, sums 2 and 2: with 4,
//                    80 bytes spill beside 96 registers (nvcc 13.0, sm_90). At 0.5 us per round
//                    trip to lines that have arrived and 0.4 us for the rest, 30 KiB take 1.4 us
//                    (21 GB/s) and 1.9 us (16 GB/s). Before, sums waited for their own operand,
//                    flags and lines one after another, in jobs of 2 lines per lane: one H200
//                    moved 5.5 GB/s of sums and 8.0 of copies
//                    (bench/results/h200/roof_366d00b2.txt: ring.LL128-1 64MiB CTA;
//                    copies.LL128-1 64MiB CTA), so 17 and 30 KiB in 2.7 and 2.9 us per job
//                    (bench/results/h200/roof_366d00b2.txt: computed; computed), with a fence
//                    per credit and four slots.
//   Slices           in a ring, a step also waits until the peer sees the stored data (a fence, a
//                    flag, a poll: 2 us): 64 KiB in 3.4 us, 19 GB/s. If a chunk is two slots, that
//                    wait overlaps the other slot's job: (1.4 + 2) / 2 us per slot, 39 GB/s
//                    (f32 sums: 35); with four of 8 slots: 47 GB/s. LL and LL128: the wait is the
//                    hop of a line (0.6 and 1.9 us), and two slots hide it behind a job, too. A
//                    slot's credit comes back after 2 us; LL128 has 8 slots to hide that.
//
// Multicast (NVLS), for one CTA of 512 threads and a round of 256 KiB, computed from 2 us per
// multimem load or barrier and 0.9 us per load of own memory:
//
//   Rows             8 vectors per thread are 64 KiB in flight per CTA, 1 MiB in all 16. A round is
//                    copied in with 4 batches and out with 4, 3.6 us each; a share of its sums (of
//                    8 ranks) is half a batch, 2 us. One after another, with the barrier: 11 us, 23
//                    GB/s, 370 in all; overlapping warps do better. A switch gives 8 ranks 400 GB/s
//                    (450 each way, 1.125 bytes per byte). With 1 load of sums, 4 of copies, slots
//                    of 64 KiB and two barriers: 9.6 us per slot, 7 GB/s, 110 in all.
//   Slots            three: one is filled, one summed, one emptied. 12 MiB per device.
#pragma once

#include <cstdint>

#ifndef RONDO_SIMPLE_SLICES
#define RONDO_SIMPLE_SLICES 2
#endif
#ifndef RONDO_LINE_SLICES
#define RONDO_LINE_SLICES 2
#endif
#ifndef RONDO_COPY_ROWS
#define RONDO_COPY_ROWS 8
#endif
#ifndef RONDO_SUM_ROWS
#define RONDO_SUM_ROWS 8
#endif
#ifndef RONDO_LL_LINES
#define RONDO_LL_LINES 4
#endif
#ifndef RONDO_LL_NARROW_LINES
#define RONDO_LL_NARROW_LINES 2
#endif
#ifndef RONDO_LL_SLOT_LINES
#define RONDO_LL_SLOT_LINES 2048
#endif
#ifndef RONDO_LL128_PAIRS
#define RONDO_LL128_PAIRS 2
#endif
#ifndef RONDO_LL128_SUM_PAIRS
#define RONDO_LL128_SUM_PAIRS 1
#endif
#ifndef RONDO_LL128_SLOT_LINES
#define RONDO_LL128_SLOT_LINES 256
#endif
#ifndef RONDO_NVLS_ROWS
#define RONDO_NVLS_ROWS 8
#endif
#ifndef RONDO_NVLS_SLOT
#define RONDO_NVLS_SLOT (256 << 10)
#endif
#ifndef RONDO_NVLS_CTAS
#define RONDO_NVLS_CTAS 16
#endif

namespace rondo::cuda::shapes {

// Simple. (Earlier values: 1, 8 and 4; then 1, 8 and 8.) Slots per chunk of a ring, one after
// another: at most half of a connection's slots, because a rank fills a chunk before it empties
// one.
inline constexpr int kSimpleSlices = RONDO_SIMPLE_SLICES;
inline constexpr int kLineSlices = RONDO_LINE_SLICES;  // the same for LL and LL128
inline constexpr int kCopyRows = RONDO_COPY_ROWS;      // vectors in flight per thread
inline constexpr int kSumRows = RONDO_SUM_ROWS;        // per operand (of two) of float32
// LL. (Earlier values: 1 line; slots of 1024 lines.)
inline constexpr int kLLLines = RONDO_LL_LINES;               // lines that a thread loads before it
                                                              // waits
inline constexpr int kLLNarrowLines = RONDO_LL_NARROW_LINES;  // 16-bit sums: limited by registers
inline constexpr std::uint64_t kLLSlotLines = RONDO_LL_SLOT_LINES;
// LL128. (Earlier value: 1 line_pair.)
inline constexpr int kLL128Pairs = RONDO_LL128_PAIRS;         // pairs of lines that a lane awaits,
                                                              // and loads at once for copies
inline constexpr int kLL128SumPairs = RONDO_LL128_SUM_PAIRS;  // the same for reductions, which
                                                              // have 96 registers
inline constexpr std::uint64_t kLL128SlotLines = RONDO_LL128_SLOT_LINES;

// Multicast. (Earlier values: 1, 64 KiB and 16.)
inline constexpr int kMulticastRows = RONDO_NVLS_ROWS;  // vectors in flight per thread
inline constexpr std::uint64_t kMulticastSlot = RONDO_NVLS_SLOT;
inline constexpr int kMulticastCtas = RONDO_NVLS_CTAS;  // maximum per call

static_assert(kMulticastRows >= 1 && kMulticastSlot % 128 == 0 && kMulticastCtas >= 1);
static_assert(kSimpleSlices >= 1 && kLineSlices >= 1 && kLLLines >= 1 && kLLNarrowLines >= 1 &&
              kLL128SumPairs >= 1 && kLL128Pairs % kLL128SumPairs == 0 && kLL128SlotLines % 2 == 0);

}  // namespace rondo::cuda::shapes
