// What the kernels of LL push are told: small calls between devices that reach each other.
//
// Every rank has staging in its own memory into which all others push their data, 8 bytes a line of
// LL (4 beside each flag): [CTA][slot][sender][line]. Which slot and flag come next lies in device
// memory between launches, so that a captured launch can be replayed. Plain structs, read by host
// and device.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/connected_args.h"

namespace rondo::cuda {

inline constexpr int kMaxLLPush = 8;  // ranks, one a device
inline constexpr int kLLPushCtas = 16;
inline constexpr int kLLPushSlots = 2;
inline constexpr std::uint64_t kLLPushLines = 512;  // of a slot, from one sender: 4 KiB of data
inline constexpr int kLLPushThreads = 512;
inline constexpr unsigned kLLPushShared = kWaitShared + 24;  // shared memory of a launch
inline constexpr std::uint64_t kLLPushStaging =
    kLLPushCtas * kLLPushSlots * kMaxLLPush * kLLPushLines * kLineSize;

inline constexpr int kMaxLLPushCalls = 8;  // of one launch

// A list of calls, one after the other, each as if it were alone in its launch (ConnectedArgs).
struct LLPushArgs {
  struct Call {
    CallRecord record;    // to report what a kernel waits for
    std::uint64_t count;  // of a block (copies: bytes)
    const void* input;
    void* output;
    std::uint64_t scalar;  // PreMulSum: the factor, or where it lies
    std::int32_t late_scalar;
    std::int32_t channels;  // CTAs that do it: the first of the launch's
  };
  std::int32_t calls;
  std::int32_t rank, ranks;
  std::uint32_t grain;
  std::uint64_t per_round;         // of a CTA
  std::uint64_t* rounds;           // by CTA: how many it has done, ever
  std::uint64_t* launches;         // by CTA, calls of any kind; null: no host wants to know
  std::byte* staging[kMaxLLPush];  // of every rank, as this device sees it
  Control* control;
  Call call[kMaxLLPushCalls];
};

}  // namespace rondo::cuda
