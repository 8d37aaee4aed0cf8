// The host's network interfaces with their speeds, as /sys/class/net has them.
//
//   for (const NetInterface& one : read_net_interfaces()) ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::topology {

struct NetInterface {
  std::string name;
  std::int64_t megabits = 0;  // per second; 0: the driver does not say (virtual links)
  int numa = -1;              // node of the device; -1: none, or not said
  bool up = false;
  bool loopback = false;
  friend bool operator==(const NetInterface&, const NetInterface&) = default;
};

// By name; empty where /sys is not mounted. `root` stands before /sys (tests).
std::vector<NetInterface> read_net_interfaces(const std::string& root = "");

}  // namespace rondo::topology
