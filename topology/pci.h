// Where PCI devices are to each other, from the paths of their directories in /sys/devices.
//
//   pci_distance(pci_path("0000:01:00.0"), port.path) <= PciDistance::kOneSwitch
#pragma once

#include <string>

namespace rondo::topology {

// How far, as NCCL_P2P_LEVEL counts. An empty path is unknown, which is the farthest.
enum class PciDistance { kOneSwitch, kSeveralSwitches, kHostBridge, kSystem };
PciDistance pci_distance(const std::string& path, const std::string& other);

// The directory of a device by its address, in any case of letters; empty where there is none.
// `root` stands before /sys (tests).
std::string pci_path(std::string address, const std::string& root = "");

// A path without links; empty where there is none. What stands before /sys/devices is left out.
std::string real_path(const std::string& path);

}  // namespace rondo::topology
