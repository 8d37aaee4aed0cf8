// SPDX-License-Identifier: Apache-2.0
// Peer access (P2P): whether a device can use another device's memory. CUDA must support it, and
// NCCL_P2P_DISABLE and NCCL_P2P_LEVEL must allow it. Cost: a driver call, and a path search if
// NCCL_P2P_LEVEL is set.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "topology/graph/nearness.h"

namespace rondo::gpu {

// Both are devices of this process; true if they are the same. `graph`: this host's. Devices that
// are not in it, or all if it is null, have the maximum distance.
Result<bool> may_reach(int device, int peer, const topology::Graph* graph);
// The same for a GPU that this process does not see (CUDA_VISIBLE_DEVICES), by its PCI bus id. CUDA
// cannot be asked about it, but maps memory that its process shares: true if that is worth a try.
Result<bool> may_try(int device, const std::string& peer, const topology::Graph* graph);
// Enables access of the current device, which is `device`, to the memory of those of `peers` that
// it may reach.
Status enable_peers(int device, std::span<const int> peers, const topology::Graph* graph);

// The longest path that NCCL_P2P_LEVEL or a similar variable allows; LOC: none, SYS: all.
Result<topology::PathClass> parse_peer_level(const std::string& text,
                                             const char* variable = "NCCL_P2P_LEVEL");

}  // namespace rondo::gpu
