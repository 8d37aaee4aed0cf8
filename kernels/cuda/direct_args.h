// SPDX-License-Identifier: Apache-2.0
// Arguments of the direct kernels: all ranks of one device, in one launch without waits.
//
// Several devices that reach each other may share one call's work: each launches the kernel with
// the same arguments except for its DeviceBarrier. With more than kArgumentDevices of them, kernels
// read the addresses of peers from a table in device memory (Peer).
//
// Plain structs, read by host and device. Counts are elements, sizes bytes, pointers device
// addresses. At most 4 KiB, the kernel argument size that every driver accepts.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace rondo::cuda {

inline constexpr int kMaxDirectRanks = 64;     // of one device, or of one host
inline constexpr int kMaxSharingDevices = 72;  // that share a call's work: those of an NVL72
inline constexpr int kArgumentDevices = 18;    // whose addresses are in arguments
// Ranks whose data a kernel reads at once. Sums of floats of more have kernels of their own, "wide"
// ones, which read groups of that number: their code would cost the others registers.
inline constexpr int kNarrowRanks = 8;
// Maximum threads per CTA, and CTAs per multiprocessor (kDirectCtas): 96 registers a thread.
inline constexpr int kDirectThreads = 320;
// The same for conversions and scalars, which need more registers: 128 a thread.
inline constexpr int kDirectHeavyThreads = 256;
constexpr bool is_heavy(DataType type, RedOp op) {
  return op == RedOp::kPreMulSum || (is_float(type) && size_of(type) == 1);
}
inline constexpr int kDirectCtas = 2;

struct Control;  // connected_args.h

// What the kernels of a rank use of a rank's memory, at addresses of their device. A table of them,
// by rank, is in device memory, written at init, where there are more ranks than arguments have
// room for: their kernels load an address before they use it.
struct Peer {
  std::byte* lines;           // staging of LL push
  std::uint64_t* arrivals;    // of a DeviceBarrier
  std::byte *input, *output;  // staging of shared kernels
};

// The barrier between CTA c of a kernel and CTA c of the same kernel on other devices: before it
// touches any buffer and after its last access. All launches of a call have the same number of
// CTAs, all resident at once, of at least one thread per device.
inline constexpr int kBarrierCtas = 64;  // maximum per launch
struct DeviceBarrier {
  std::int32_t devices = 1;  // number that take part; 1: no barrier
  std::int32_t place = 0;    // this device, by its only rank
  std::uint64_t* barriers;   // by CTA: total number of barriers
  // In each device's memory: signals, [CTA][place], arrivals_of_cta() for each CTA. With more
  // than kArgumentDevices: in `peers`.
  std::uint64_t* arrivals[kArgumentDevices];
  const Peer* peers;
  Control* control;
  std::uint64_t* launches;  // by CTA, of any kind; null: no report to a host
  CallRecord call;          // for reports of what a kernel waits for
};
constexpr std::uint64_t arrivals_of_cta(int devices) {
  return static_cast<std::uint64_t>(devices > kArgumentDevices ? devices : kArgumentDevices);
}
// A call of a list whose calls have separate barriers, each as if it were alone in its launch. So
// ranks of several processes may launch the whole list, parts of it, or one call at a time.
struct ListedCall {
  CallRecord record;            // for reports of what a kernel waits for
  std::uint16_t ctas, threads;  // the first ones of the launch, the same as if launched alone
  std::uint16_t end_item;       // copies: end of its items
};
// A rank's own buffers in a call whose data passes through staging that all devices reach. A CTA
// copies in and out the parts of the blocks on which CTAs with its number work. No other CTA of the
// device touches its slice of staging. So the CTAs' own barriers are the only order needed,
// whatever lists the ranks launch their calls in.
struct StagedCall {
  const void* send;    // null: nothing is copied in
  void* receive;       // null: nothing is copied out
  std::uint64_t part;  // elements (copies: bytes) per block and CTA
};
// Shared memory used by the waits of a CTA (kernel_wait.h), from offset 0. A launch with barriers
// needs no more.
inline constexpr unsigned kWaitShared = 32;
inline constexpr unsigned kBarrierShared = kWaitShared;

// A list of calls of one kind. No call may touch what another call writes. Call c reduces the
// `sources` inputs from input[c * sources] on, in reduce.h's tree order over their indexes. Segment
// k in [0, segments) begins at input + k * count. scattered: segment k goes to output k of the call
// (reduce-scatter); else the only segment goes to all of its outputs, from output[c * targets] on.
// The thread that writes a position also reads it, inputs first, so an output may be an input.
// slice: inputs and outputs are staging; CTA c uses `slice` elements from c * slice on for its
// parts of the segments, one after another.
inline constexpr int kMaxReductions = 32;
struct ReduceArgs {
  std::int32_t calls;  // arguments in device memory: always 1, this field is ignored
  std::int32_t sources, targets, segments;
  std::int32_t ranks;  // avg divides by it
  bool scattered;
  RedOp op;  // of AnyReduce; other kernels ignore it, and `is_signed`
  bool is_signed;
  const void* input[kMaxSharingDevices];
  void* output[kMaxSharingDevices];
  // PreMulSum, never of several devices on staging: input i is multiplied by scalar[i], or, if bit
  // i of late_scalars is set, by the value at that device address (read when the kernel runs).
  std::uint64_t late_scalars;
  std::uint64_t scalar[kMaxDirectRanks];
  std::uint64_t count[kMaxReductions];  // elements of each call
  ListedCall listed[kMaxReductions];    // of several devices: each call has its own barriers
  std::uint64_t slice;                  // 0: not staged
  StagedCall staged[kMaxReductions];
  std::uint64_t own_step[kMaxReductions];  // staged: from segment to segment of its own buffers
  DeviceBarrier barrier;
};
static_assert(sizeof(ReduceArgs) <= 4096);

inline constexpr int kMaxCopies = 64;
inline constexpr int kMaxCopyTargets = 256;
inline constexpr int kMaxListedCopies = 10;  // calls

// Copies items one after another, each to one or more targets. A target may be the source.
struct CopyArgs {
  struct Item {
    const void* from;
    std::uint64_t bytes;
    std::uint32_t first_target, targets;
  };
  std::int32_t items, all_targets;
  Item item[kMaxCopies];
  void* target[kMaxCopyTargets];
  std::int64_t calls;  // with separate barriers; 0: all items together
  ListedCall listed[kMaxListedCopies];
  DeviceBarrier barrier;
};
static_assert(sizeof(CopyArgs) <= 4096);

// Copies between ranks through staging (staged_copy.h). A rank's number equals its place.
inline constexpr int kMaxStagedCopies = 64;  // calls
struct StagedCopyArgs {
  std::byte* input[kArgumentDevices];  // staging of each rank; of more: in barrier.peers
  std::byte* output[kArgumentDevices];
  std::uint64_t slice;  // bytes per CTA
  std::int64_t calls;
  std::uint64_t bytes[kMaxStagedCopies];  // size of a block of each call
  ListedCall listed[kMaxStagedCopies];
  StagedCall staged[kMaxStagedCopies];
  DeviceBarrier barrier;
};
static_assert(sizeof(StagedCopyArgs) <= 4096);

// Clears a rank's memory for lines (clear_lines.h). CTA c clears and meets for itself.
inline constexpr int kClearCtas = 16;
struct ClearLinesArgs {
  std::byte* lines;
  std::uint64_t bytes;
  std::uint64_t generation;  // of the memory, from 1
  std::uint64_t* cleared;    // by CTA: the generation that it has cleared
  DeviceBarrier barrier;
};

// A meeting of all devices before the copies of copy engines, or after them (direct_copy.cu).
struct MeetingArgs {
  bool begins;
  DeviceBarrier barrier;
};

}  // namespace rondo::cuda
