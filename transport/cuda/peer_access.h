// Whether a device may use another one's memory: what CUDA offers, and what NCCL_P2P_DISABLE and
// NCCL_P2P_LEVEL leave of it. Costs a driver call, and reading of /sys where a level is asked for.
#pragma once

#include <string>

#include "base/result.h"

namespace rondo::gpu {

// Both are devices of this process. A device uses its own memory always.
Result<bool> may_reach(int device, int peer);

// How far two PCI devices are from each other, as NCCL_P2P_LEVEL counts, from the paths of their
// directories in /sys/devices (empty: unknown, which is the farthest).
enum class PciDistance { kOneSwitch, kSeveralSwitches, kHostBridge, kSystem };
PciDistance pci_distance(const std::string& path, const std::string& other);

// The greatest distance over which NCCL_P2P_LEVEL allows P2P. LOC: none at all.
struct PeerLevel {
  bool none = false;
  PciDistance farthest = PciDistance::kSystem;
};
Result<PeerLevel> parse_peer_level(const std::string& text);

}  // namespace rondo::gpu
