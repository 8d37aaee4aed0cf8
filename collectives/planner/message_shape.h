// SPDX-License-Identifier: Apache-2.0
// How much slot memory a pair of ranks has for messages between GPUs, and how it is divided into
// channels. Pure functions. Cost: some operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/planner/device_facts.h"
#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// Over a network each channel is a separate connection, and one thread serves them: a pair has
// fewer.
struct MessageShape {
  int channels = cuda::kMessageChannels;
  std::uint64_t slot_bytes = cuda::kMessageSlotBytes;
  bool over_network = false;
};
MessageShape message_shape(std::uint64_t bytes, bool over_network = false);

// Bytes of one pair, if ranks have `staging_bytes` for all their pairs (RONDO_GPU_STAGING). pinned:
// in host memory, of which they have less.
std::uint64_t message_bytes_of_pair(std::uint64_t staging_bytes, std::size_t ranks, bool pinned);

// messages_ns(): predicted time of gather, scatter, all-to-all and ring messages that run as
// messages between GPUs, by the rates in the facts: the busiest rank's bytes on its links and
// ports, its CTAs' slots, its launches.
//
// Unmeasured. `rondo simulate` simulates the same launches slot by slot; tests compare the two. A
// pure function of what all ranks agreed on; only + - * /. Cost: some tens of operations.
//
// Time from the first launch. kSend: each rank sends to the next one.
double messages_ns(const DevicePlanFacts& facts, const CallRecord& record);

// Default number of CTAs of a launch of messages; with several hosts, that of connections.
inline constexpr int message_ctas(int hosts) {
  return hosts > 1 ? kUsualChannels : cuda::kMaxMessageCtas;
}

}  // namespace rondo::gpu
