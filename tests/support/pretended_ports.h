// SPDX-License-Identifier: Apache-2.0
// Four simulated network ports, as files like those of /sys in the folder that RONDO_SYS_ROOT
// names.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace rondo::test {

// mlx5_0 to mlx5_3, at their places in tests/gpu/two-hosts.xml. rate: of each port, as "200 Gb/sec
// (4X HDR)".
inline void pretend_four_ports(const TemporaryFolder& root, const std::string& rate) {
  namespace fs = std::filesystem;
  root.file("sys/devices/system/node/online", "0\n");
  root.file("sys/devices/system/node/node0/cpulist", "0-7\n");
  for (int port = 0; port < 4; ++port) {
    const std::string bus_id = "0000:" + std::to_string(port + 1) + "3:00.0";
    const std::string device = "sys/devices/pci0000:" + std::to_string(port + 1) + "0/" + bus_id;
    const std::string entry = "sys/class/infiniband/mlx5_" + std::to_string(port);
    root.file(device + "/class", "0x020700\n");
    root.file(entry + "/ports/1/state", "4: ACTIVE\n");
    root.file(entry + "/ports/1/rate", rate + "\n");
    fs::create_directories(root.path() + "/sys/bus/pci/devices");
    fs::create_directory_symlink(root.path() + "/" + device,
                                 root.path() + "/sys/bus/pci/devices/" + bus_id);
    fs::create_directory_symlink(root.path() + "/" + device, root.path() + "/" + entry + "/device");
  }
}

}  // namespace rondo::test
