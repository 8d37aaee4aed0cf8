// What a call of messages takes on a cluster: the launches that the ranks' devices would make of
// it (collectives/gpu/launch/message_launches.h), played in virtual time.
//
// Slots are those that ranks have by RONDO_GPU_STAGING, each rank is a process. Where a message has
// many slots fewer are played, and the time drawn on once it grows evenly (`extrapolated`). Cost:
// 300 ns a slot that is played.
#pragma once

#include "collectives/model/gpu_cluster.h"
#include "kernels/sim/sim_messages.h"

namespace rondo::model {

// All-to-all, gather, scatter; kSend: each rank sends to the next one.
constexpr bool is_of_messages(Collective which) {
  return which == Collective::kAllToAll || which == Collective::kGather ||
         which == Collective::kScatter || which == Collective::kSend;
}
// Ranks up to which messages are played.
inline constexpr int kMaxMessageRanks = 512;

// bytes: of each message.
sim::SimMessageCall message_call(const GpuCluster& cluster, Collective which, int root,
                                 std::uint64_t bytes);
Result<sim::SimResult> play_messages(const GpuCluster& cluster, const CallRecord& record);

}  // namespace rondo::model
