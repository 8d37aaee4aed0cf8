// Which link two ranks have, and what the model says of it.
#include "topology/link_model.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "topology/net_interfaces.h"

namespace rondo::topology {
namespace {

HostTopology machine() {
  DiscoverOptions options;
  options.synthetic = "package:2 numa:2 l3:2 l2:2 core:1 pu:2";  // 32 CPUs, 4 in an L3
  auto host = discover(options);
  EXPECT_TRUE(host.ok());
  return *host;
}

TEST(LinkModel, TheLinkIsTheNearestThingThatTwoRanksShare) {
  const HostTopology host = machine();
  const auto link = [&](CpuList a, CpuList b) {
    return link_between(place_on(host, a, 1), place_on(host, b, 2));
  };
  EXPECT_EQ(link({0}, {0}), LinkKind::kTimeShared);
  EXPECT_EQ(link({0}, {1}), LinkKind::kSharedL2);
  EXPECT_EQ(link({0}, {2}), LinkKind::kSharedL3);
  EXPECT_EQ(link({0}, {4}), LinkKind::kSameNuma);
  EXPECT_EQ(link({0}, {8}), LinkKind::kSamePackage);
  EXPECT_EQ(link({0}, {16}), LinkKind::kCrossPackage);
  EXPECT_EQ(link(host.cpus, host.cpus), LinkKind::kCrossPackage) << "unbound: the worst";
  EXPECT_EQ(link({}, {}), LinkKind::kCrossPackage);
}

TEST(LinkModel, WithoutCommonMemoryProcessesOfAHostUseTcpAndThreadsDoNot) {
  const HostTopology host = machine();
  const RankPlace a = place_on(host, {0}, 1);
  EXPECT_EQ(link_between(a, place_on(host, {2}, 2), false), LinkKind::kTcpLoopback);
  EXPECT_EQ(link_between(a, place_on(host, {2}, 1), false), LinkKind::kSharedL3);
  RankPlace elsewhere = a;
  ++elsewhere.host_id;
  EXPECT_EQ(link_between(a, elsewhere), LinkKind::kNetwork);
}

TEST(LinkModel, OnACrowdedHostUnboundRanksTakeTurns) {
  DiscoverOptions options;
  options.synthetic = "l3:1 core:2 pu:1";
  auto host = discover(options);
  ASSERT_TRUE(host.ok());
  for (const int ranks : {2, 3}) {
    std::vector<RankPlace> places;
    for (int rank = 0; rank < ranks; ++rank) {
      places.push_back(place_on(*host, host->cpus, static_cast<std::uint64_t>(rank)));
    }
    const RankLayout layout = lay_out(places);
    EXPECT_EQ(link_between(layout, places, 0, 1),
              ranks > 2 ? LinkKind::kTimeShared : LinkKind::kSharedL3);
    EXPECT_EQ(link_between(layout, places, 0, 1, false), LinkKind::kTcpLoopback);
  }
}

TEST(LinkModel, RowsStandInTheOrderOfTheirKindAndFartherMemoryIsSlower) {
  const LinkTable table = link_priors();
  for (int kind = 0; kind < kLinkKinds; ++kind) {
    const Link& link = table[static_cast<LinkKind>(kind)];
    EXPECT_EQ(static_cast<int>(link.kind), kind);
    EXPECT_GE(link.parked_ns, link.latency_ns);
    EXPECT_GT(link.memory_gbs, 0);
    EXPECT_GE(link.cached_gbs, link.memory_gbs);
  }
  for (int kind = static_cast<int>(LinkKind::kSharedL2); kind + 1 < kLinkKinds; ++kind) {
    const Link& near = table[static_cast<LinkKind>(kind)];
    const Link& far = table[static_cast<LinkKind>(kind + 1)];
    EXPECT_LT(transfer_ns(near, 0), transfer_ns(far, 0)) << name(far.kind);
    EXPECT_LT(transfer_ns(near, 1 << 20), transfer_ns(far, 1 << 20)) << name(far.kind);
  }
}

TEST(LinkModel, TimeIsLatencyAndCachedBytesAndTheRestFromMemory) {
  const Link link{LinkKind::kSharedL3, 100, 1000, 10, 2, 4000, true};
  EXPECT_DOUBLE_EQ(transfer_ns(link, 0), 100);
  EXPECT_DOUBLE_EQ(transfer_ns(link, 4000), 500);
  EXPECT_DOUBLE_EQ(transfer_ns(link, 5000), 1000);
}

TEST(LinkModel, AHostsCachesAndNetworkReplaceThePriors) {
  const HostTopology host = machine();
  const LinkTable table = link_table(host, 11.75);
  EXPECT_EQ(table[LinkKind::kSharedL3].cached_bytes, host.l3_bytes / 2);
  EXPECT_EQ(table[LinkKind::kSharedL2].cached_bytes, host.l3_bytes / 2);
  EXPECT_EQ(table[LinkKind::kNetwork].cached_bytes, ~std::uint64_t{0});
  EXPECT_DOUBLE_EQ(table[LinkKind::kNetwork].memory_gbs, 11.75);
}

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
  EXPECT_NEAR(network_gbs(interfaces), 25.0 / 8 * 0.94, 1e-9);
  EXPECT_NEAR(network_gbs({}), 10.0 / 8 * 0.94, 1e-9);
  EXPECT_TRUE(read_net_interfaces(machine.path() + "/absent").empty());
}

}  // namespace
}  // namespace rondo::topology
