// The directories of PCI devices in /sys/devices. Their paths show the bridges above each device.
//
//   const std::string path = pci_path("0000:01:00.0");
#pragma once

#include <string>

namespace rondo::topology {

// The directory of the device with this address (upper or lower case); empty if there is none.
// `root` is put before /sys (tests).
std::string pci_path(std::string address, const std::string& root = "");

// The path without symbolic links, from /sys/devices on; empty if there is none.
std::string real_path(const std::string& path);

}  // namespace rondo::topology
