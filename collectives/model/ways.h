// SPDX-License-Identifier: Apache-2.0
// Ways: the ways in which a call could run on the GPUs of a cluster, and which one the planner
// takes.
//
// A way is a plan as communicators make it (device_plan.h, recent_device_plans.h), for each
// algorithm and protocol, over the rings of the channel search. Cost: one plan each.
#pragma once

#include <string>
#include <vector>

#include "collectives/model/gpu_cluster.h"
#include "collectives/planner/device_plan.h"
#include "kernels/sim/sim_messages.h"

namespace rondo::model {

struct Way {
  std::string name;  // "ring", "tree", "twoshot", "oneshot", "nvls", "messages"
  gpu::DevicePlan plan;
  bool chosen = false;  // the planner's choice
};
// Choices that NCCL_ALGO and NCCL_PROTO leave to the planner.
struct Wishes {
  AlgorithmFilter algorithms{};
  std::uint8_t protocols = gpu::kUsualProtocols;
};
// All ways that can run the call, regardless of `wishes`, which only set `chosen`; empty if there
// is none. Between hosts, only kernels. A record of kSend means a message of each rank to the next
// one.
std::vector<Way> ways_of(const GpuCluster& cluster, const CallRecord& record,
                         const Wishes& wishes = {});

// The planner's facts for a communicator of all ranks of a cluster, each in its own process.
gpu::DevicePlanFacts facts_of(const GpuCluster& cluster);

// Predicted time of a call of messages on a cluster: the launches that the ranks' devices would
// make for it (collectives/gpu/plan/message_launches.h), simulated in virtual time.
//
// Slots are those of RONDO_GPU_STAGING; each rank is a process. If a message has many slots, only
// some are simulated, and the time is extrapolated once it grows evenly (`extrapolated`). Cost: 300
// ns per simulated slot.
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
