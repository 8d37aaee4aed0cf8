// What the direct kernels are told: all ranks of one device, in one launch without waits.
//
// Several devices that reach each other may share one call's work: each launches the kernel with
// the same arguments but for its DeviceBarrier.
//
// Plain structs, read by host and device. Counts are elements, sizes bytes, pointers device
// addresses. At most 4 KiB, the least that every driver takes as kernel arguments.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace rondo::cuda {

inline constexpr int kMaxDirectRanks = 64;
// Most threads a CTA, and CTAs that a multiprocessor shall hold: 96 registers a thread.
inline constexpr int kDirectThreads = 320;
// Conversions and scalars need registers of their own: 128 a thread.
inline constexpr int kDirectHeavyThreads = 256;
constexpr bool is_heavy(DataType type, RedOp op) {
  return op == RedOp::kPreMulSum || (is_float(type) && size_of(type) == 1);
}
inline constexpr int kDirectCtas = 2;

struct Control;  // connected_args.h

// Where CTA c of a kernel meets CTA c of the same kernel on other devices: before it touches any
// buffer and after it has. All launches of a call have equally many CTAs, resident at once.
inline constexpr int kMaxBarrierDevices = 8;  // devices
inline constexpr int kBarrierCtas = 64;       // most of a launch
struct DeviceBarrier {
  std::int32_t devices = 1;                 // that meet; 1: there is nobody to meet
  std::int32_t place = 0;                   // of this device
  std::uint64_t* barriers;                  // by CTA: how often it has met, ever
  std::uint64_t* told[kMaxBarrierDevices];  // in each device's memory: [CTA][place] said so
  Control* control;
  std::uint64_t* launches;                // by CTA, of any kind; null: no host wants to know
  CallRecord call;                        // to report what a kernel waits for
  std::int32_t rank[kMaxBarrierDevices];  // one of each device
};
// A call of a list whose calls meet one by one, each as if it were alone in its launch: ranks of
// several processes may launch such a list, or parts of it, or call by call.
struct ListedCall {
  CallRecord record;            // to report what a kernel waits for
  std::uint16_t ctas, threads;  // of the launch, the first: those that it would have alone
  std::uint16_t end_item;       // of copies: behind its items
};
// A rank's own side of a call whose inputs and outputs pass through staging that all devices reach:
// a CTA brings in and takes out the parts of its blocks on which CTAs of its number work, and
// nobody else touches its slice of staging. So CTAs are ordered by their own barriers alone, in
// whatever lists ranks launch their calls.
struct StagedCall {
  const void* send;    // null: nothing is brought in
  void* receive;       // null: nothing is taken out
  std::uint64_t part;  // elements (copies: bytes) of a block that a CTA does
};
// Shared memory that the waits of a CTA use (kernel_wait.h): where it begins. All that a launch
// that meets needs.
inline constexpr unsigned kWaitShared = 32;
inline constexpr unsigned kBarrierShared = kWaitShared;

// A list of calls of one kind, none of which touches what another one writes. Of call c, reduces
// the `sources` inputs from input[c * sources] on in reduce.h's tree order over their places.
// Segment k in [0, segments) lies at input + k * count. scattered: segment k goes to output k of
// the call (reduce-scatter); else the one segment goes to all of its outputs, from output[c *
// targets] on. Each position is read by the thread that writes it, inputs first: an output may be
// an input. slice: inputs and outputs are staging, of which CTA c has `slice` elements from
// c * slice on: its part of each segment, one after the other.
inline constexpr int kMaxReductions = 32;
struct ReduceArgs {
  std::int32_t calls;  // with arguments in device memory: 1, whatever stands here
  std::int32_t sources, targets, segments;
  std::int32_t ranks;  // avg divides by it
  bool scattered;
  bool one_by_one;  // calls meet as `listed` says; else all of them together
  const void* input[kMaxDirectRanks];
  void* output[kMaxDirectRanks];
  // PreMulSum: input i is multiplied by scalar[i], or by what is at that device address where bit
  // i of late_scalars is set (read when the kernel runs).
  std::uint64_t late_scalars;
  std::uint64_t scalar[kMaxDirectRanks];
  std::uint64_t count[kMaxReductions];  // of each call
  ListedCall listed[kMaxReductions];
  std::uint64_t slice;  // 0: not staged
  StagedCall staged[kMaxReductions];
  DeviceBarrier barrier;
};
static_assert(sizeof(ReduceArgs) <= 4096);

inline constexpr int kMaxCopies = 64;
inline constexpr int kMaxCopyTargets = 256;
inline constexpr int kMaxListedCopies = 14;  // calls

// Copies item after item, each to one or several places. An item's target may be its source.
struct CopyArgs {
  struct Item {
    const void* from;
    std::uint64_t bytes;
    std::uint32_t first_target, targets;
  };
  std::int32_t items, all_targets;
  Item item[kMaxCopies];
  void* target[kMaxCopyTargets];
  std::int64_t calls;  // that meet one by one; 0: all items together
  ListedCall listed[kMaxListedCopies];
  DeviceBarrier barrier;
};
static_assert(sizeof(CopyArgs) <= 4096);

// Copies between ranks through staging (staged_copy.h). Place and rank are the same.
inline constexpr int kMaxStagedCopies = 64;  // calls
struct StagedCopyArgs {
  std::byte* input[kMaxBarrierDevices];  // staging of each rank
  std::byte* output[kMaxBarrierDevices];
  std::uint64_t slice;  // bytes of a CTA
  std::int64_t calls;
  std::uint64_t bytes[kMaxStagedCopies];  // of a block of each call
  ListedCall listed[kMaxStagedCopies];
  StagedCall staged[kMaxStagedCopies];
  DeviceBarrier barrier;
};
static_assert(sizeof(StagedCopyArgs) <= 4096);

}  // namespace rondo::cuda
