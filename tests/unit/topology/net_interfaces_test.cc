// SPDX-License-Identifier: Apache-2.0
// The host's network interfaces, as /sys lists them.
#include "topology/net_interfaces.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace rondo::topology {
namespace {

TEST(NetInterfaces, SpeedsAreReadAndSilentOnesStayUnknown) {
  const test::TemporaryFolder machine;
  const auto file = [&](const std::string& path, const std::string& text) {
    machine.file("sys/class/net/" + path, text);
  };
  file("lo/type", "772\n");
  file("lo/operstate", "unknown\n");
  file("eth0/type", "1\n");
  file("eth0/speed", "25000\n");
  file("eth0/operstate", "up\n");
  file("eth0/device/numa_node", "1\n");
  file("eth1/type", "1\n");
  file("eth1/speed", "100000\n");
  file("eth1/operstate", "down\n");
  file("virt0/type", "1\n");
  file("virt0/speed", "-1\n");
  file("virt0/operstate", "up\n");
  file("bonding_masters", "bond0\n");

  const auto interfaces = read_net_interfaces(machine.path());
  ASSERT_EQ(interfaces.size(), 4u);
  EXPECT_EQ(interfaces[0], (NetInterface{"eth0", 25000, 1, true, false}));
  EXPECT_EQ(interfaces[1], (NetInterface{"eth1", 100000, -1, false, false}));
  EXPECT_EQ(interfaces[2], (NetInterface{"lo", 0, -1, true, true}));
  EXPECT_EQ(interfaces[3], (NetInterface{"virt0", 0, -1, true, false}));
  EXPECT_TRUE(read_net_interfaces(machine.path() + "/absent").empty());
}

TEST(NetInterfaces, ThoseOfVirtioAreWhereTheirDeviceOfPciIs) {
  const test::TemporaryFolder machine;
  const std::string card = "sys/devices/pci0000:c0/0000:c0:01.0";
  machine.file(card + "/numa_node", "1\n");
  machine.file(card + "/virtio5/modalias", "virtio:d00000001v00001AF4\n");
  machine.file("sys/class/net/eth3/type", "1\n");
  std::filesystem::create_directory_symlink(machine.path() + "/" + card + "/virtio5",
                                            machine.path() + "/sys/class/net/eth3/device");
  const auto interfaces = read_net_interfaces(machine.path());
  ASSERT_EQ(interfaces.size(), 1u);
  EXPECT_EQ(interfaces[0].numa, 1);
}

}  // namespace
}  // namespace rondo::topology
