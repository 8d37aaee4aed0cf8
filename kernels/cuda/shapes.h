// How much the kernels over connections and over multicast memory have on the way at once: one
// table, which a first hour on a GPU sweeps. Each can be given by -D of what stands in capitals: it
// decides registers, or the layout of lines. (Bytes of a Simple slot are given at run time, by
// NCCL_BUFFSIZE.)
//
// Predictions are for one CTA of 576 workers, from bytes in flight, and from 0.9 us a load under
// load, 0.2 us from a job to the next, 0.3 us to issue 64 KiB of stores. docs/start/gpus.md has
// what one H200 said of them, before warps went from job to job by themselves (job_ring.h).
//
//   Simple, copy     8 vectors a thread, 72 KiB in flight: a slot of 64 KiB is one batch, 1.4 us a
//                    job: 47 GB/s.
//   Simple, f32 sum  8 vectors of 2 operands (10 to 14 loads in flight, as ptxas places them): a
//                    slot is one batch, 1.7 us a job: 38 GB/s. With 4 it was two, 2.6 us: 25.
//   LL               4 lines a thread: a slot of 1024 lines is one batch of 256 threads, and their
//                    loads are waited for once, not four times: 0.9 us, not 3.6, for 8 KiB.
//   LL128            4 lines a lane: a slot of 256 lines is one batch of 16 warps (two of 8):
//                    30 KiB in 1.4 us, 21 GB/s, where 2 lines a lane took 2.3 us: 13. Sums of
//                    floats have registers for 2 lines: 4 spill 64 to 80 bytes beside 96 registers
//                    (nvcc 13.0, sm_90). A text that reads its own operands pair by pair, once all
//                    lines have come, has 4 in flight in 90 to 96, but waits 0.9 us for that read
//                    behind the lines: 2.3 us again, unless a prefetch hides it (untried).
//   Slices           in a ring a step also waits until the peer sees what was stored (a fence, a
//                    flag, a poll: 2 us): 64 KiB in 3.4 us, 19 GB/s. Where a chunk is two slots,
//                    that wait runs beside the other slot's job: (1.4 + 2) / 2 us a slot, 39 GB/s
//                    (f32 sums: 35); four of 8 slots: 47.
//
// Multicast (NVLS), of one CTA of 512 threads and a round of 256 KiB, from 2 us a multimem load or
// barrier, 0.9 us a load of the own memory:
//
//   Rows             8 vectors a thread are 64 KiB in flight a CTA, 1 MiB in all 16. A round comes
//                    in by 4 batches and goes out by 4, 3.6 us each; 8 ranks' shares of its sums
//                    are half a batch, 2 us. One after the other, with the barrier, 11 us: 23 GB/s,
//                    370 in all; warps that overlap do better. A switch lets 8 ranks have 400 (450
//                    each way, 1.125 bytes a byte). With 1 load of sums, 4 of copies, slots of 64
//                    KiB and two barriers it was 9.6 us a slot: 7 GB/s, 110 in all.
//   Slots            three: one is filled, one summed, one emptied. 12 MiB a device.
#pragma once

#include <cstdint>

#ifndef RONDO_SIMPLE_SLICES
#define RONDO_SIMPLE_SLICES 2
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
#define RONDO_LL_SLOT_LINES 1024
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

// Simple. (Before: 1, 8 and 4; then 1, 8 and 8.)
// Slots that a chunk of a ring fills, one after the other: at most half of a connection's, as a
// rank fills a chunk before it empties one.
inline constexpr int kSimpleSlices = RONDO_SIMPLE_SLICES;
inline constexpr int kCopyRows = RONDO_COPY_ROWS;  // vectors in flight a thread
inline constexpr int kSumRows = RONDO_SUM_ROWS;    // of each of two operands of float32
// LL. (Before: 1 line.)
inline constexpr int kLLLines = RONDO_LL_LINES;               // that a thread loads before it waits
inline constexpr int kLLNarrowLines = RONDO_LL_NARROW_LINES;  // sums of 16 bits: registers
inline constexpr std::uint64_t kLLSlotLines = RONDO_LL_SLOT_LINES;
// LL128. (Before: 1 line_pair.)
inline constexpr int kLL128Pairs = RONDO_LL128_PAIRS;         // pairs of lines that a lane loads
inline constexpr int kLL128SumPairs = RONDO_LL128_SUM_PAIRS;  // of sums, which have 96 registers
inline constexpr std::uint64_t kLL128SlotLines = RONDO_LL128_SLOT_LINES;

// Multicast. (Before: 1, 64 KiB and 16.)
inline constexpr int kMulticastRows = RONDO_NVLS_ROWS;  // vectors in flight a thread
inline constexpr std::uint64_t kMulticastSlot = RONDO_NVLS_SLOT;
inline constexpr int kMulticastCtas = RONDO_NVLS_CTAS;  // most of a call

static_assert(kMulticastRows >= 1 && kMulticastSlot % 128 == 0 && kMulticastCtas >= 1);
static_assert(kSimpleSlices >= 1 && kLLLines >= 1 && kLLNarrowLines >= 1 && kLL128SumPairs >= 1 &&
              kLL128Pairs >= 1 && kLL128SlotLines % 2 == 0);

}  // namespace rondo::cuda::shapes
