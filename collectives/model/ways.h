// Ways: in which ways a call could run on the GPUs of a cluster, and which one the planner takes.
//
// A way is a plan as communicators make it (device_plan.h, internode_plan.h), of each algorithm and
// protocol in turn, over the rings of the channel search. Cost: a plan each.
#pragma once

#include <string>
#include <vector>

#include "collectives/model/gpu_cluster.h"
#include "collectives/planner/device_plan.h"

namespace rondo::model {

struct Way {
  std::string name;  // "ring", "tree", "twoshot", "oneshot", "nvls", "messages"
  gpu::DevicePlan plan;
  bool chosen = false;  // the planner's
};
// What NCCL_ALGO and NCCL_PROTO leave to the planner.
struct Wishes {
  AlgorithmFilter algorithms{};
  std::uint8_t protocols = gpu::kUsualProtocols;
};
// Those that can run the call, whatever is wished; none where nothing can. Between hosts, kernels'
// alone. A record of kSend stands for a message of each rank to the next one.
std::vector<Way> ways_of(const GpuCluster& cluster, const CallRecord& record,
                         const Wishes& wishes = {});

// What the planner knows of communicators of all ranks of a cluster, each a process.
gpu::DevicePlanFacts facts_of(const GpuCluster& cluster);

}  // namespace rondo::model
