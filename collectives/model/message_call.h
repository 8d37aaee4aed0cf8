// SPDX-License-Identifier: Apache-2.0
// Predicted time of a call of messages on a cluster: the launches that the ranks' devices would
// make for it (collectives/gpu/plan/message_launches.h), simulated in virtual time.
//
// Slots are those of RONDO_GPU_STAGING; each rank is a process. If a message has many slots, only
// some are simulated, and the time is extrapolated once it grows evenly (`extrapolated`). Cost: 300
// ns per simulated slot.
#pragma once

#include "collectives/model/gpu_cluster.h"
#include "kernels/sim/sim_messages.h"

namespace rondo::model {

// All-to-all, gather, scatter; kSend: each rank sends to the next one.
constexpr bool is_of_messages(Collective which) {
  return which == Collective::kAllToAll || which == Collective::kGather ||
         which == Collective::kScatter || which == Collective::kSend;
}
// Maximum number of ranks for which messages are simulated.
inline constexpr int kMaxMessageRanks = 512;

// bytes: size of each message.
sim::SimMessageCall message_call(const GpuCluster& cluster, Collective which, int root,
                                 std::uint64_t bytes);
Result<sim::SimResult> time_messages(const GpuCluster& cluster, const CallRecord& record);

}  // namespace rondo::model
