// messages_ns(): what gathers, scatters, all-to-alls and messages in a ring take as messages
// between GPUs, by the costs of the facts: the busiest rank's bytes on its links and ports,
// its CTAs' slots, its launches.
//
// Nothing was measured. `rondo simulate` plays the same launches slot by slot; tests compare the
// two. A pure function of what all ranks agreed on, + - * / alone. Cost: some tens of operations.
#pragma once

#include "collectives/planner/device_plan.h"
#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// From the first launch on; kSend: each rank to the next one.
double messages_ns(const DevicePlanFacts& facts, const CallRecord& record);

// CTAs of a launch of messages, where the program says nothing: those of connections where there
// are several hosts.
inline constexpr int message_ctas(int hosts) {
  return hosts > 1 ? kUsualChannels : cuda::kMaxMessageCtas;
}

}  // namespace rondo::gpu
