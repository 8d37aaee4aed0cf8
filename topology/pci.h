// The directories of PCI devices in /sys/devices, whose paths tell what each hangs from.
//
//   const std::string path = pci_path("0000:01:00.0");
#pragma once

#include <string>

namespace rondo::topology {

// The directory of a device by its address, in any case of letters; empty where there is none.
// `root` stands before /sys (tests).
std::string pci_path(std::string address, const std::string& root = "");

// A path without links; empty where there is none. What stands before /sys/devices is left out.
std::string real_path(const std::string& path);

}  // namespace rondo::topology
