// What the kernels over multicast memory are told (multicast.h). Plain structs, read by host and
// device; counts are elements (copies: bytes), sizes bytes.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/shapes.h"

namespace rondo::cuda {

inline constexpr int kMulticastThreads = 512;
// Of a CTA, in turn: one is filled while another one is summed and a third one emptied.
inline constexpr int kMulticastSlots = 3;
inline constexpr std::uint64_t kMulticastStaging =
    shapes::kMulticastCtas * kMulticastSlots * shapes::kMulticastSlot;

// What a switch adds up: no other operation gives reduce.h's bits (its min and max lose NaNs), and
// averages would be rounded twice.
constexpr bool multicast_sums(DataType type, RedOp op) {
  return op == RedOp::kSum &&
         (type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16);
}
// Maximum of elements, in whole vectors, that a slot holds for each of `parts` ranks.
constexpr std::uint64_t multicast_round(std::uint64_t parts, std::uint64_t width) {
  return shapes::kMulticastSlot / parts / 16 * 16 / width;
}

inline constexpr int kMaxMulticastCalls = 16;  // of one launch

// A list of calls, one after the other, each as if it were alone in its launch (ListedCall).
struct MulticastArgs {
  struct Call {
    CallRecord record;
    std::uint64_t count;  // of a block
    // Of a round, of each block that shares a slot: at most multicast_round() of them.
    std::uint64_t per_round;
    const void* input;
    void* output;
    // Without staging: the caller's buffers at one address for all devices' (null: with staging),
    // and each rank's output, for elements that make no whole vector.
    const std::byte* all_input;
    std::byte* all_output;
    void* outputs[kMaxBarrierDevices];
    std::uint32_t grain;
    std::int32_t channels;  // CTAs that do it: the first of the launch's
  };
  std::int32_t calls;
  std::int32_t rank, ranks;  // one rank a device: ranks are places of the barrier
  std::byte* own;            // this device's staging: [CTA][slot]
  std::byte* all;            // that of all devices at once
  DeviceBarrier barrier;
  Call call[kMaxMulticastCalls];
};
static_assert(sizeof(MulticastArgs) <= 4096);

}  // namespace rondo::cuda
