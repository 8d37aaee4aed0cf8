// SPDX-License-Identifier: Apache-2.0
// The host's network interfaces with their speeds, from /sys/class/net.
//
//   for (const NetInterface& one : read_net_interfaces()) ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::topology {

struct NetInterface {
  std::string name;
  std::int64_t megabits = 0;  // per second; 0: not reported by the driver (virtual links)
  int numa = -1;              // node of the device; -1: none, or unknown
  bool up = false;
  bool loopback = false;
  friend bool operator==(const NetInterface&, const NetInterface&) = default;
};

// Sorted by name; empty if /sys is not mounted. `root` is put before /sys (tests).
std::vector<NetInterface> read_net_interfaces(const std::string& root = "");

// The directory in /sys/devices of the PCI device with this address (upper or lower case); empty if
// there is none. Its path shows the bridges above the device. `root` is put before /sys (tests).
//
//   const std::string path = pci_path("0000:01:00.0");
std::string pci_path(std::string address, const std::string& root = "");

// The path without symbolic links, from /sys/devices on; empty if there is none.
std::string real_path(const std::string& path);

}  // namespace rondo::topology
