// Whether a device may use another one's memory: what CUDA offers, and what NCCL_P2P_DISABLE and
// NCCL_P2P_LEVEL leave of it. Costs a driver call, and a path where a level is asked for.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/graph/nearness.h"

namespace rondo::gpu {

// Both are devices of this process. A device uses its own memory always. `graph`: of this host;
// devices that it lacks, or null, are as far from each other as can be.
Result<bool> may_reach(int device, int peer, const topology::Graph* graph);

// The farthest path that NCCL_P2P_LEVEL, or another such variable, allows; LOC: none, SYS: all.
Result<topology::PathClass> parse_peer_level(const std::string& text,
                                             const char* variable = "NCCL_P2P_LEVEL");

}  // namespace rondo::gpu
