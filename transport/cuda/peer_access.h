// Whether a device may use another one's memory: what CUDA offers, and what NCCL_P2P_DISABLE and
// NCCL_P2P_LEVEL leave of it. Costs a driver call, and reading of /sys where a level is asked for.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/pci.h"

namespace rondo::gpu {

// Both are devices of this process. A device uses its own memory always.
Result<bool> may_reach(int device, int peer);

// The greatest distance that NCCL_P2P_LEVEL, or another such variable, allows. LOC: none at all.
struct PeerLevel {
  bool none = false;
  topology::PciDistance farthest = topology::PciDistance::kSystem;
};
Result<PeerLevel> parse_peer_level(const std::string& text,
                                   const char* variable = "NCCL_P2P_LEVEL");

}  // namespace rondo::gpu
