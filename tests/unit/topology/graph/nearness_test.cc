// SPDX-License-Identifier: Apache-2.0
// Distances on the machines of tests/topology: between GPUs, and from ranks to network ports.
#include "topology/graph/nearness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/fixtures.h"

namespace rondo::topology {
namespace {

using test::fixture;

// "PIX: mlx5_0 mlx5_1; SYS: ...", with the tier's turn if it is not 0.
std::string text_of(const NearNics& near) {
  std::string text;
  for (const NicTier& tier : near.tiers) {
    text += fmt::format("{}{}", text.empty() ? "" : "; ", name(tier.kind));
    if (tier.turn != 0) text += fmt::format("+{}", tier.turn);
    for (const NicName& nic : tier.nics) text += " " + nic.device;
  }
  return text;
}

std::vector<DeviceLocation> at_gpus(const Graph& graph) {
  std::vector<DeviceLocation> locations;
  for (const int gpu : graph.gpus()) locations.push_back({graph.node(gpu).bus_id, -1});
  return locations;
}

std::string nearest(const std::vector<std::string>& ports, const NearNics& near) {
  std::string text;
  for (const std::string& port :
       nearest_of(ports, near, [](const auto&one, const NicName&nic) { return one == nic.device; }))
    text += (text.empty() ? "" : " ") + port;
  return text;
}

TEST(Nearness, OfDevicesByBusIdOrName) {
  const Graph graph = fixture("pcie-8-two-sockets");
  EXPECT_EQ(class_between(graph, "0000:11:00.0", "0000:12:00.0"), PathClass::kPix);
  EXPECT_EQ(class_between(graph, "00000000:11:00.0", "0000:31:00.0"), PathClass::kPhb);
  EXPECT_EQ(class_between(graph, "0000:11:00.0", "0000:B1:00.0"), PathClass::kSys);
  EXPECT_EQ(class_between(graph, "0000:11:00.0", "0000:11:00.0"), PathClass::kLoc);
  const DeviceLocation locations[] = {{.gpu = "0000:07:00.0"}};
  const NearNics near = near_nics(fixture("dgx-a100"), locations, 0);
  EXPECT_EQ(class_of(near, {"mlx5_0", 1}), PathClass::kPix);
  EXPECT_EQ(class_of(near, {"mlx5_1"}), PathClass::kPix);
  EXPECT_EQ(class_of(near, {"mlx5_2", 1}), PathClass::kSys);
  // An adapter with another name here but a known bus id.
  EXPECT_EQ(class_of(near, {"rdma7", 0, near.tiers[0].nics[0].bus_id}), PathClass::kPix);
}

TEST(Nearness, WhatTheGraphLacksIsFar) {
  const Graph graph = fixture("dgx-a100");
  EXPECT_EQ(class_between(graph, "0000:07:00.0", "0000:77:00.0"), PathClass::kSys);
  EXPECT_EQ(class_between(graph, "", ""), PathClass::kSys);
  const DeviceLocation locations[] = {{.gpu = "0000:07:00.0"}};
  const NearNics near = near_nics(graph, locations, 0);
  EXPECT_EQ(class_of(near, {"mlx5_0", 2}), PathClass::kSys);
  EXPECT_EQ(class_of(near, {"eth7"}), PathClass::kSys);
  EXPECT_EQ(class_of(near, {}), PathClass::kSys);
  EXPECT_EQ(class_between(Graph(), "0000:07:00.0", "0000:0f:00.0"), PathClass::kSys);
}

TEST(Nearness, GpusOfASwitchBeginAtItsPortsInTurn) {
  const Graph graph = fixture("dgx-a100");
  const auto locations = at_gpus(graph);
  const NearNics first = near_nics(graph, locations, 0), second = near_nics(graph, locations, 1);
  EXPECT_EQ(text_of(first).substr(0, 18), "PIX mlx5_0 mlx5_1;");
  EXPECT_EQ(text_of(second).substr(0, 20), "PIX+1 mlx5_0 mlx5_1;");
  EXPECT_EQ(first.tiers[0].nics[1], (NicName{"mlx5_1", 1, "0000:12:00.0"}));
  std::vector<std::string> all;
  for (const int nic : graph.nics()) all.push_back(graph.node(nic).name);
  EXPECT_EQ(nearest(all, first), "mlx5_0 mlx5_1");
  EXPECT_EQ(nearest(all, second), "mlx5_1 mlx5_0");
  EXPECT_EQ(nearest(all, near_nics(graph, locations, 2)), "mlx5_2 mlx5_3");
  // A port that NCCL_IB_HCA excludes, or that is down.
  EXPECT_EQ(nearest({"mlx5_1", "mlx5_2"}, first), "mlx5_1");
  EXPECT_EQ(nearest({"mlx5_1", "mlx5_2"}, second), "mlx5_1");
}

TEST(Nearness, RanksOnCoresAreAtTheirNumaNode) {
  const Graph graph = fixture("pcie-8-two-sockets");
  const std::vector<DeviceLocation> locations = {{"", 1}, {"", 0}, {"", 1}, {"", -1}, {"", 9}};
  const std::string here = graph.node(graph.nics()[0]).name,
                    there = graph.node(graph.nics()[1]).name;
  EXPECT_EQ(text_of(near_nics(graph, locations, 0)), fmt::format("PHB {}; SYS {}", there, here));
  EXPECT_EQ(text_of(near_nics(graph, locations, 1)), fmt::format("PHB {}; SYS {}", here, there));
  EXPECT_EQ(text_of(near_nics(graph, locations, 2)),
            fmt::format("PHB+1 {}; SYS+1 {}", there, here));
  // The node is unknown: all ports are equally near and are assigned round robin.
  EXPECT_EQ(text_of(near_nics(graph, locations, 3)), fmt::format("SYS {} {}", here, there));
  EXPECT_EQ(text_of(near_nics(graph, locations, 4)), fmt::format("SYS+1 {} {}", here, there));
}

TEST(Nearness, OfEquallyNearPortsTheFasterOnesComeFirst) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const auto port = [&](const char* name, double gbs, double pci) {
    const int nic = builder.add({.kind = NodeKind::kNic, .name = name, .port_gbs = gbs});
    builder.link({nic, numa, GraphLinkKind::kPci, pci, 16, Source::kFile});
  };
  port("slow", 12.5, 31.5);
  port("fast", 50, 63);
  port("narrow", 50, 12.5);
  const Graph graph = std::move(builder).build().value();
  const std::vector<DeviceLocation> locations = {{"", 0}};
  EXPECT_EQ(text_of(near_nics(graph, locations, 0)), "PHB fast; PHB narrow slow");
}

TEST(Nearness, PortsThatNoTierHasAreDealtOutByTheRanksNumber) {
  const std::vector<DeviceLocation> locations(3);
  const NearNics near = near_nics(Graph(), locations, 2);
  EXPECT_EQ(near.turn, 2);
  EXPECT_EQ(nearest({"a", "b"}, near), "a b");
  EXPECT_EQ(nearest({"a", "b", "c"}, near), "c a b");
  EXPECT_EQ(nearest({}, near), "");
}

}  // namespace
}  // namespace rondo::topology
