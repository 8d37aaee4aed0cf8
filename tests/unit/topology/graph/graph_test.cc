// SPDX-License-Identifier: Apache-2.0
// Graphs: equal machines compare equal whatever the order of additions; impossible graphs are
// refused.
#include "topology/graph/graph.h"

#include <gtest/gtest.h>

#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

constexpr GraphLinkKind kPci = GraphLinkKind::kPci;

int add_gpu(GraphBuilder& builder, int above, const char* bus_id, int number) {
  const int gpu = builder.add({.kind = NodeKind::kGpu, .bus_id = bus_id, .number = number});
  builder.link({gpu, above, kPci, 32});
  return gpu;
}

Graph two_gpus(bool other_order) {
  GraphBuilder builder;
  const int first = builder.add({.kind = NodeKind::kNuma, .number = other_order ? 1 : 0});
  const int second = builder.add({.kind = NodeKind::kNuma, .number = other_order ? 0 : 1});
  const int numa0 = other_order ? second : first, numa1 = other_order ? first : second;
  int a, b;
  if (other_order) {
    b = add_gpu(builder, numa1, "0000:02:00.0", 1);
    a = add_gpu(builder, numa0, "0000:01:00.0", 0);
    builder.link({b, a, GraphLinkKind::kNvLink, 100, 4});
  } else {
    a = add_gpu(builder, numa0, "0000:01:00.0", 0);
    b = add_gpu(builder, numa1, "0000:02:00.0", 1);
    builder.link({a, b, GraphLinkKind::kNvLink, 100, 4});
  }
  return std::move(builder).build().value();
}

TEST(Graph, IsTheSameInAnyOrderOfAdding) {
  const Graph one = two_gpus(false), other = two_gpus(true);
  EXPECT_EQ(one, other);
  EXPECT_EQ(one.digest(), other.digest());
}

TEST(Graph, AnotherFactIsAnotherDigest) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  add_gpu(builder, numa, "0000:01:00.0", 0);
  GraphBuilder slower = builder;
  slower.link({slower.add({.kind = NodeKind::kNic, .bus_id = "0000:03:00.0"}), numa, kPci, 16});
  builder.link({builder.add({.kind = NodeKind::kNic, .bus_id = "0000:03:00.0"}), numa, kPci, 32});
  EXPECT_NE(std::move(builder).build()->digest(), std::move(slower).build()->digest());
}

TEST(Graph, SourcesDoNotChangeTheDigest) {
  GraphBuilder one, other;
  one.add({.kind = NodeKind::kNuma, .number = 0, .source = Source::kSysfs});
  other.add({.kind = NodeKind::kNuma, .number = 0, .source = Source::kFile});
  EXPECT_EQ(std::move(one).build()->digest(), std::move(other).build()->digest());
}

TEST(Graph, NvLinksListedByBothEndsCountOnce) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int a = add_gpu(builder, numa, "0000:01:00.0", 0);
  const int b = add_gpu(builder, numa, "0000:02:00.0", 1);
  for (int i = 0; i < 4; ++i) builder.link({a, b, GraphLinkKind::kNvLink, 25, 1});
  for (int i = 0; i < 3; ++i) builder.link({b, a, GraphLinkKind::kNvLink, 25, 1});
  const Graph graph = std::move(builder).build().value();
  const GraphLink* link = graph.between(graph.gpus()[0], graph.gpus()[1]);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->count, 4);
  EXPECT_DOUBLE_EQ(link->gbs, 100);
}

TEST(Graph, NumaNodesAreAllJoinedAtThePriorOfTheirCpu) {
  GraphBuilder builder;
  builder.cpu({"x86_64", "AuthenticAMD", 25, 1});
  for (int id = 0; id < 3; ++id) builder.add({.kind = NodeKind::kNuma, .number = id});
  const Graph graph = std::move(builder).build().value();
  ASSERT_EQ(graph.links().size(), 3u);
  for (const GraphLink& link : graph.links()) {
    EXPECT_EQ(link.kind, GraphLinkKind::kSockets);
    EXPECT_DOUBLE_EQ(link.gbs, sockets_gbs(graph.cpu()));
    EXPECT_EQ(link.source, Source::kPrior);
  }
}

TEST(Graph, NumberedGpusComeFirst) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  add_gpu(builder, numa, "0000:01:00.0", -1);
  add_gpu(builder, numa, "0000:02:00.0", 1);
  add_gpu(builder, numa, "0000:03:00.0", 0);
  const Graph graph = std::move(builder).build().value();
  ASSERT_EQ(graph.gpus().size(), 3u);
  EXPECT_EQ(graph.node(graph.gpus()[0]).bus_id, "0000:03:00.0");
  EXPECT_EQ(graph.node(graph.gpus()[1]).bus_id, "0000:02:00.0");
  EXPECT_EQ(graph.node(graph.gpus()[2]).bus_id, "0000:01:00.0");
}

TEST(Graph, RefusesWhatHangsFromNothing) {
  GraphBuilder builder;
  builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:01:00.0"});
  const auto graph = std::move(builder).build();
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, StatusCode::kInvalidArgument);
  EXPECT_NE(graph.error().text.find("0000:01:00.0"), std::string::npos) << graph.error().text;
}

TEST(Graph, RefusesBridgesThatHangFromEachOther) {
  GraphBuilder builder;
  builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int a = builder.add({.kind = NodeKind::kBridge, .bus_id = "0000:01:00.0"});
  const int b = builder.add({.kind = NodeKind::kBridge, .bus_id = "0000:02:00.0"});
  builder.link({a, b, kPci, 1});
  builder.link({b, a, kPci, 1});
  EXPECT_FALSE(std::move(builder).build().ok());
}

TEST(Graph, RefusesADeviceBelowTwoBridges) {
  GraphBuilder builder;
  const int a = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int b = builder.add({.kind = NodeKind::kNuma, .number = 1});
  builder.link({add_gpu(builder, a, "0000:01:00.0", 0), b, kPci, 32});
  const auto graph = std::move(builder).build();
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().text.find("0000:01:00.0 is attached to two bridges"), std::string::npos)
      << graph.error().text;
}

TEST(Graph, RefusesADeviceTwice) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  add_gpu(builder, numa, "0000:01:00.0", 0);
  add_gpu(builder, numa, "0000:01:00.0", 1);
  const auto graph = std::move(builder).build();
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().text.find("twice"), std::string::npos) << graph.error().text;
}

TEST(Graph, BusIdsAsTheyAreWritten) {
  EXPECT_EQ(normal_bus_id("0000:17:00.0"), "0000:17:00.0");
  EXPECT_EQ(normal_bus_id("00000000:C1:00.0"), "0000:c1:00.0");
  EXPECT_EQ(normal_bus_id("c1:00.0"), "0000:c1:00.0");
  EXPECT_EQ(normal_bus_id("ffff:ff:01.0"), "ffff:ff:01.0");
  for (const char* wrong : {"", "17", "0000:17:00", "0000:17:00.0.0", "pci0000:00",
                            "12345678:1:0.0", "10000000:17:00.0", "0000:17:0g.0"}) {
    EXPECT_EQ(normal_bus_id(wrong), "") << wrong;
  }
}

TEST(Rates, OfPciAreThoseOfTheSpecification) {
  EXPECT_NEAR(pci_gbs(8.0, 16), 15.75, 0.01);
  EXPECT_NEAR(pci_gbs(16.0, 16), 31.51, 0.01);
  EXPECT_NEAR(pci_gbs(32.0, 16), 63.02, 0.01);
  EXPECT_NEAR(pci_gbs(2.5, 1), 0.25, 1e-9);
  EXPECT_EQ(pci_gbs(0, 16), 0);
  EXPECT_EQ(gigatransfers("16.0 GT/s PCIe"), 16.0);
  EXPECT_EQ(gigatransfers("Unknown"), 0);
}

TEST(Rates, TheSpeedIsFoundAgain) {
  for (const double speed : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) {
    for (const int lanes : {1, 4, 8, 16}) {
      EXPECT_EQ(pci_speed_of(pci_gbs(speed, lanes), lanes), speed) << lanes;
    }
  }
  EXPECT_EQ(pci_speed_of(17.3, 16), 0);
  EXPECT_EQ(pci_speed_of(0, 0), 0);
}

TEST(Rates, OfNvLinksByGeneration) {
  EXPECT_EQ(18 * nvlink_gbs(90), 450);
  EXPECT_EQ(12 * nvlink_gbs(80), 300);
  EXPECT_EQ(18 * nvlink_gbs(100), 900);
  EXPECT_EQ(18 * nvlink_gbs(103), 900);
  EXPECT_EQ(4 * nvlink_gbs(86), 56.25);
}

}  // namespace
}  // namespace rondo::topology
