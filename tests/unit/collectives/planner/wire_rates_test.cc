// SPDX-License-Identifier: Apache-2.0
// The total rate of a host's network ports. Rings and trees: model/choices_test.cc.
#include "collectives/planner/wire_rates.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/fixtures.h"

namespace rondo::gpu {
namespace {

// Share left for data by InfiniBand with packets of 4 KiB, and by PCI with packets of 256 bytes.
constexpr double kOfPort = 0.96, kOfPci = 0.86;

double gbs_of(const topology::Graph& graph) { return network_gbs(graph, graph.nics()); }

TEST(NetworkGbs, IsTheSumOfThePorts) {
  const topology::Graph dgx = test::fixture("dgx-h100");  // 8 ports of 400 Gbit/s
  EXPECT_DOUBLE_EQ(gbs_of(dgx), 8 * 50 * kOfPort);
  const std::vector<int> three(dgx.nics().begin(), dgx.nics().begin() + 3);
  EXPECT_DOUBLE_EQ(network_gbs(dgx, three), 3 * 50 * kOfPort);
  EXPECT_DOUBLE_EQ(gbs_of(test::fixture("dgx-1v")), 4 * 12.5 * kOfPort);
}

TEST(NetworkGbs, IsNotKnownWhereAPortsRateIsNot) {
  EXPECT_EQ(gbs_of(test::fixture("cpu-box")), 0) << "its interface does not say how fast it is";
  EXPECT_EQ(network_gbs(test::fixture("dgx-h100"), {}), 0) << "no port";
}

struct Port {
  const char* bus_id;
  double port_gbs, pci_gbs;
};
double gbs_of(const std::vector<Port>& ports) {
  topology::GraphBuilder builder;
  const int numa = builder.add({.kind = topology::NodeKind::kNuma, .number = 0});
  for (const Port& port : ports) {
    const int nic = builder.add({.kind = topology::NodeKind::kNic,
                                 .bus_id = port.bus_id,
                                 .name = "eth" + std::to_string(&port - ports.data()),
                                 .port = static_cast<int>(&port - ports.data()) + 1,
                                 .port_gbs = port.port_gbs});
    builder.link({nic, numa, topology::GraphLinkKind::kPci, port.pci_gbs});
  }
  auto graph = std::move(builder).build();
  EXPECT_TRUE(graph.ok()) << graph.error().text;
  return gbs_of(*graph);
}

TEST(NetworkGbs, IsNoMoreThanThePciLinksPass) {
  EXPECT_DOUBLE_EQ(gbs_of({{"0000:11:00.0", 25, 16}}), 16 * kOfPci);
  EXPECT_DOUBLE_EQ(gbs_of({{"0000:11:00.0", 12.5, 16}}), 12.5 * kOfPort);
  // Two ports of an adapter share its PCI link, whether they belong to one function or to two.
  EXPECT_DOUBLE_EQ(gbs_of({{"0000:11:00.0", 25, 32}, {"0000:11:00.1", 25, 32}}), 32 * kOfPci);
  EXPECT_DOUBLE_EQ(gbs_of({{"0000:11:00.0", 25, 32}, {"0000:11:00.0", 25, 32}}), 32 * kOfPci);
  EXPECT_DOUBLE_EQ(gbs_of({{"0000:11:00.0", 25, 32}, {"0000:12:00.0", 25, 32}}), 50 * kOfPort);
  EXPECT_DOUBLE_EQ(gbs_of({{"0000:11:00.0", 25, 0}, {"0000:11:00.1", 25, 0}}), 50 * kOfPort)
      << "nobody knows what the link passes";
  // Ports without a known place share nothing.
  EXPECT_DOUBLE_EQ(gbs_of({{"", 25, 4}, {"", 25, 4}}), 50 * kOfPort);
  EXPECT_EQ(gbs_of({{"0000:11:00.0", 25, 32}, {"0000:12:00.0", 0, 32}}), 0);
}

}  // namespace
}  // namespace rondo::gpu
