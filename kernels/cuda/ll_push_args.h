// SPDX-License-Identifier: Apache-2.0
// Arguments of the LL push kernels: small calls between devices that reach each other.
//
// Every rank has staging in its own memory into which all others push their data, in LL lines of 8
// bytes of data (4 beside each flag): [CTA][slot][sender][line]. The next slot and flag are kept in
// device memory between launches, so that a captured launch can be replayed. Plain structs, read by
// host and device.
//
// More than kLLPushAtOnce ranks have kernels of their own (LLPush<Math, true>): these read groups
// of that number, and find the ranks' staging in a table in device memory, as arguments have no
// room.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/connected_args.h"

namespace rondo::cuda {

inline constexpr int kMaxLLPush = 72;  // ranks, one per device: those of an NVL72
inline constexpr int kLLPushAtOnce = kNarrowRanks;
inline constexpr int kLLPushCtas = 16;
inline constexpr int kLLPushSlots = 2;
inline constexpr std::uint64_t kLLPushLines = 512;  // per slot and sender: 4 KiB of data
inline constexpr int kLLPushThreads = 512;
inline constexpr unsigned kLLPushShared = kWaitShared + 24;  // shared memory of a launch
// Senders for which a rank's staging has slots.
constexpr std::uint32_t ll_push_senders(int ranks) {
  return static_cast<std::uint32_t>(ranks > kLLPushAtOnce ? ranks : kLLPushAtOnce);
}
constexpr std::uint64_t ll_push_staging(int ranks) {  // bytes
  return std::uint64_t{kLLPushCtas} * kLLPushSlots * ll_push_senders(ranks) * kLLPushLines *
         kLineSize;
}
// More than kLLPushAtOnce ranks sum only what has a kernel of its own; all may copy.
constexpr bool ll_push_sums(int ranks, DataType type, RedOp op) {
  return ranks <= kLLPushAtOnce || has_sum_kernel(type, op);
}

inline constexpr int kMaxLLPushCalls = 8;  // per launch

// A list of calls, one after another, each as if it were alone in its launch (ConnectedArgs).
struct LLPushArgs {
  struct Call {
    CallRecord record;    // for reports of what a kernel waits for
    std::uint64_t count;  // elements of a block (copies: bytes)
    const void* input;
    void* output;
    std::uint64_t scalar;  // PreMulSum: the factor, or its address
    std::int32_t late_scalar;
    std::int32_t channels;  // CTAs that run it: the first of the launch
  };
  std::int32_t calls;
  std::int32_t rank, ranks;
  std::uint32_t grain;
  std::uint64_t per_round;  // elements per CTA
  std::uint64_t* rounds;    // by CTA: total number of rounds done
  std::uint64_t* launches;  // by CTA, calls of any kind
  // Staging of every rank, in this device's addresses; if there are more ranks: in `peers`.
  std::byte* staging[kLLPushAtOnce];
  const Peer* peers;
  Control* control;
  Call call[kMaxLLPushCalls];
};

}  // namespace rondo::cuda
