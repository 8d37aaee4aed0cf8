// SPDX-License-Identifier: Apache-2.0
// RDMA ports of simulated machines.
#include "transport/verbs/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace rondo::verbs {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class RdmaMachine : public testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) { folder_.file(name, text); }
  std::string at(const std::string& port, const std::string& name) {
    return "sys/class/infiniband/" + port + "/" + name;
  }
  void port(const std::string& where, const std::string& state, const std::string& layer) {
    file(at(where, "state"), state + "\n");
    file(at(where, "link_layer"), layer + "\n");
    file(at(where, "rate"), "100 Gb/sec (4X EDR)\n");
    file(at(where, "lid"), "0x1f\n");
  }
  void gid(const std::string& where, int index, const std::string& text, const std::string& type) {
    file(at(where, "gids/" + std::to_string(index)), text + "\n");
    if (!type.empty()) file(at(where, "gid_attrs/types/" + std::to_string(index)), type + "\n");
  }
  test::TemporaryFolder folder_;
};

TEST_F(RdmaMachine, WithoutDevicesHasNoPorts) {
  EXPECT_THAT(read_ports(folder_.path()), SizeIs(0));
}

TEST_F(RdmaMachine, ListsPortsWithStateLinkLayerRateAndLid) {
  port("mlx5_1/ports/2", "1: DOWN", "Ethernet");
  port("mlx5_1/ports/1", "4: ACTIVE", "Ethernet");
  port("mlx5_0/ports/1", "4: ACTIVE", "InfiniBand");
  const std::string pci = "sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0";
  file(pci + "/numa_node", "1\n");
  std::filesystem::create_symlink(folder_.path() + "/" + pci,
                                  folder_.path() + "/sys/class/infiniband/mlx5_0/device");
  const auto ports = read_ports(folder_.path());
  ASSERT_THAT(ports, SizeIs(3));
  EXPECT_EQ(ports[0].name(), "mlx5_0:1");
  EXPECT_TRUE(ports[0].active);
  EXPECT_FALSE(ports[0].ethernet);
  EXPECT_EQ(ports[0].lid, 31);
  EXPECT_EQ(ports[0].gigabits, 100);
  EXPECT_FALSE(ports[0].software);
  EXPECT_EQ(ports[1].name(), "mlx5_1:1");
  EXPECT_TRUE(ports[1].ethernet);
  EXPECT_EQ(ports[2].name(), "mlx5_1:2");
  EXPECT_FALSE(ports[2].active);
  EXPECT_TRUE(ports[2].software);                        // no device
  file("sys/class/infiniband/mlx5_0/parent", "eth0\n");  // soft-RoCE on an adapter's interface
  EXPECT_TRUE(read_ports(folder_.path())[0].software);
  EXPECT_EQ(list_ports({ports[0], ports[2]}),
            "mlx5_0:1 (InfiniBand, ACTIVE, 100 Gb/s), mlx5_1:2 (RoCE, DOWN, 100 Gb/s)");
}

TEST_F(RdmaMachine, SkipsEntriesOfTheGidTableThatAreFreeOrCannotBeRead) {
  const std::string where = "rxe0/ports/1";
  port(where, "4: ACTIVE", "Ethernet");
  gid(where, 0, "fe80:0000:0000:0000:5054:00ff:fe77:0001", "RoCE v2");
  gid(where, 1, "0000:0000:0000:0000:0000:0000:0000:0000", "");
  gid(where, 2, "fe80:0000:0000:0000:0000:0000:0000:0000", "IB/RoCE v1");
  gid(where, 3, "no address", "RoCE v2");
  std::filesystem::create_directories(folder_.path() + "/" + at(where, "gids/4"));
  gid(where, 10, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2");
  gid(where, 9, "fd13:0007:0000:0000:0000:0000:0000:0001", "IB/RoCE v1");
  const auto ports = read_ports(folder_.path());
  ASSERT_THAT(ports, SizeIs(1));
  const auto& gids = ports[0].gids;
  ASSERT_THAT(gids, SizeIs(3));
  EXPECT_EQ(gids[0].index, 0);
  EXPECT_TRUE(gids[0].is_link_local());
  EXPECT_EQ(gids[1].index, 9);  // by number, not by name
  EXPECT_FALSE(gids[1].roce_v2);
  EXPECT_FALSE(gids[1].is_ipv4());
  EXPECT_EQ(gids[1].text(), "fd13:7::1");
  EXPECT_EQ(gids[2].index, 10);
  EXPECT_TRUE(gids[2].roce_v2);
  EXPECT_TRUE(gids[2].is_ipv4());
  EXPECT_FALSE(gids[2].is_link_local());
  EXPECT_EQ(gids[2].text(), "10.77.0.1");
}

TEST(RdmaPort, WithoutAnythingMissingIsUsable) {
  Port port{.device = "rxe0", .active = true, .state = "ACTIVE"};
  port.gids.push_back({});
  EXPECT_EQ(unusable(port).why, "");
  EXPECT_EQ(unusable(Port{.active = true, .ethernet = false, .lid = 3}).why, "");
}

TEST(RdmaPort, ThatCarriesNothingIsReportedWithWhatToDo) {
  const auto down = unusable({.state = "DOWN"});
  EXPECT_THAT(down.why, HasSubstr("DOWN"));
  EXPECT_THAT(down.remedy, HasSubstr("cable"));
  const auto waiting = unusable({.state = "INIT", .ethernet = false});
  EXPECT_THAT(waiting.remedy, HasSubstr("subnet manager"));
  EXPECT_THAT(unusable({.active = true}).why, HasSubstr("no GID"));
  EXPECT_THAT(unusable({.active = true, .ethernet = false}).why, HasSubstr("no LID"));
}

TEST(RdmaGid, KnowsLinkLocalAddressesOfBothFamilies) {
  Gid ipv4{.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 3, 4}};
  EXPECT_TRUE(ipv4.is_link_local());
  ipv4.bytes[13] = 253;
  EXPECT_FALSE(ipv4.is_link_local());
  EXPECT_TRUE((Gid{.bytes = {0xfe, 0xbf}}).is_link_local());
  EXPECT_FALSE((Gid{.bytes = {0xfe, 0xc0}}).is_link_local());
}

}  // namespace
}  // namespace rondo::verbs
