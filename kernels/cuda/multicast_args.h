// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels over multicast memory (multicast.h). Plain structs, read by host and
// device; counts are elements (copies: bytes), sizes bytes.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/shapes.h"

namespace rondo::cuda {

inline constexpr int kMulticastThreads = 512;
// Slots per CTA, in rotation: one is filled while another is summed and a third is emptied.
inline constexpr int kMulticastSlots = 3;
inline constexpr std::uint64_t kMulticastStaging =
    shapes::kMulticastCtas * kMulticastSlots * shapes::kMulticastSlot;

// What the switch can reduce. No other operation gives reduce.h's bits: its min and max lose NaNs,
// and averages would be rounded twice.
constexpr bool multicast_sums(DataType type, RedOp op) {
  return op == RedOp::kSum &&
         (type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16);
}
// Maximum number of elements, in whole vectors, that a slot holds for each of `parts` ranks.
constexpr std::uint64_t multicast_round(std::uint64_t parts, std::uint64_t width) {
  return shapes::kMulticastSlot / parts / 16 * 16 / width;
}

inline constexpr int kMaxMulticastCalls = 16;  // per launch

// A list of calls, one after another, each as if it were alone in its launch (ListedCall).
struct MulticastArgs {
  struct Call {
    CallRecord record;
    std::uint64_t count;  // elements of a block
    // Per round, of each block that shares a slot: at most multicast_round().
    std::uint64_t per_round;
    const void* input;
    void* output;
    // Without staging: multicast addresses of the callers' buffers (null: with staging), and each
    // rank's output, for elements that fill no whole vector.
    const std::byte* all_input;
    std::byte* all_output;
    void* outputs[kArgumentDevices];
    std::uint32_t grain;
    std::int32_t channels;  // CTAs that run it: the first of the launch
  };
  std::int32_t calls;
  std::int32_t rank, ranks;  // one rank per device: rank = place in the barrier
  std::byte* own;            // this device's staging: [CTA][slot]
  std::byte* all;            // the staging of all devices at once
  DeviceBarrier barrier;
  Call call[kMaxMulticastCalls];
};
static_assert(sizeof(MulticastArgs) <= 4096);

}  // namespace rondo::cuda
