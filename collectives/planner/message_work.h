// SPDX-License-Identifier: Apache-2.0
// messages_ns(): predicted time of gather, scatter, all-to-all and ring messages that run as
// messages between GPUs, by the rates in the facts: the busiest rank's bytes on its links and
// ports, its CTAs' slots, its launches.
//
// Unmeasured. `rondo simulate` simulates the same launches slot by slot; tests compare the two. A
// pure function of what all ranks agreed on; only + - * /. Cost: some tens of operations.
#pragma once

#include "collectives/planner/device_facts.h"
#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// Time from the first launch. kSend: each rank sends to the next one.
double messages_ns(const DevicePlanFacts& facts, const CallRecord& record);

// Default number of CTAs of a launch of messages; with several hosts, that of connections.
inline constexpr int message_ctas(int hosts) {
  return hosts > 1 ? kUsualChannels : cuda::kMaxMessageCtas;
}

}  // namespace rondo::gpu
