// The host's network interfaces with their speeds, as /sys/class/net has them.
//
//   const double gbs = network_gbs(read_net_interfaces());
#pragma once

#include <cstdint>
#include <span>
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

// GB/s of payload that TCP can carry over the fastest interface that is up (10 Gbit/s where none
// says its speed).
double network_gbs(std::span<const NetInterface> interfaces);

}  // namespace rondo::topology
