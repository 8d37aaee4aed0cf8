// SPDX-License-Identifier: Apache-2.0
// Paths on the machines of tests/topology, compared with the output of nvidia-smi on such machines.
#include "topology/graph/paths.h"

#include <gtest/gtest.h>

#include "tests/support/fixtures.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

using test::fixture;

Path of_gpus(const Graph& graph, int a, int b) {
  return path_between(graph, graph.gpus()[static_cast<std::size_t>(a)],
                      graph.gpus()[static_cast<std::size_t>(b)]);
}

Path to_nic(const Graph& graph, int gpu, int nic) {
  return path_between(graph, graph.gpus()[static_cast<std::size_t>(gpu)],
                      graph.nics()[static_cast<std::size_t>(nic)]);
}

TEST(Paths, ADeviceReachesItself) {
  EXPECT_EQ(of_gpus(fixture("dgx-h100"), 3, 3).kind, PathClass::kLoc);
}

TEST(Paths, OverASwitchAtTheRateOfAllLinks) {
  const Graph graph = fixture("dgx-h100");
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      const Path path = of_gpus(graph, a, b);
      EXPECT_EQ(path.kind, PathClass::kNvl);
      EXPECT_DOUBLE_EQ(path.gbs, 450);
      ASSERT_EQ(path.nodes.size(), 3u);
      EXPECT_EQ(path.nodes[1], graph.nvswitch());
    }
  }
}

TEST(Paths, OfAHybridCubeMesh) {
  const Graph graph = fixture("dgx-1v");
  EXPECT_EQ(of_gpus(graph, 0, 3).kind, PathClass::kNvl);
  EXPECT_DOUBLE_EQ(of_gpus(graph, 0, 3).gbs, 50);
  EXPECT_DOUBLE_EQ(of_gpus(graph, 0, 1).gbs, 25);
  // The GPUs have no direct link: the path crosses the GPU that has two links to both.
  const Path path = of_gpus(graph, 0, 7);
  EXPECT_EQ(path.kind, PathClass::kNvb);
  EXPECT_DOUBLE_EQ(path.gbs, 50);
  ASSERT_EQ(path.nodes.size(), 3u);
  EXPECT_EQ(graph.node(path.nodes[1]).number, 4);
}

TEST(Paths, OfCardsBehindSwitches) {
  const Graph graph = fixture("pcie-8-two-sockets");
  EXPECT_EQ(of_gpus(graph, 0, 1).kind, PathClass::kPix);
  EXPECT_DOUBLE_EQ(of_gpus(graph, 0, 1).gbs, pci_gbs(16, 16));
  EXPECT_EQ(of_gpus(graph, 0, 2).kind, PathClass::kPhb);
  EXPECT_EQ(of_gpus(graph, 0, 4).kind, PathClass::kSys);
  EXPECT_DOUBLE_EQ(of_gpus(graph, 0, 4).gbs, sockets_gbs(graph.cpu()));
  EXPECT_EQ(to_nic(graph, 0, 0).kind, PathClass::kPhb);
  EXPECT_EQ(to_nic(graph, 0, 1).kind, PathClass::kSys);
}

TEST(Paths, AreTheSameBothWays) {
  for (const std::string& name : test::fixture_names()) {
    const Graph graph = fixture(name);
    for (int a = 0; a < static_cast<int>(graph.nodes().size()); ++a) {
      for (int b = 0; b < a; ++b) {
        const Path there = path_between(graph, a, b), back = path_between(graph, b, a);
        EXPECT_EQ(there.kind, back.kind) << name << " " << a << " " << b;
        EXPECT_DOUBLE_EQ(there.gbs, back.gbs) << name << " " << a << " " << b;
        EXPECT_EQ(std::vector<int>(there.nodes.rbegin(), there.nodes.rend()), back.nodes);
      }
    }
  }
}

TEST(Paths, FollowLinksThatAreThere) {
  for (const std::string& name : test::fixture_names()) {
    const Graph graph = fixture(name);
    for (const int gpu : graph.gpus()) {
      for (const int nic : graph.nics()) {
        const Path path = path_between(graph, gpu, nic);
        ASSERT_GE(path.nodes.size(), 2u) << name;
        EXPECT_EQ(path.nodes.front(), gpu);
        EXPECT_EQ(path.nodes.back(), nic);
        for (std::size_t i = 1; i < path.nodes.size(); ++i) {
          const GraphLink* link = graph.between(path.nodes[i - 1], path.nodes[i]);
          ASSERT_NE(link, nullptr) << name;
          EXPECT_TRUE(link->gbs == 0 || path.gbs <= link->gbs) << name;
        }
      }
    }
  }
}

TEST(Paths, SeveralSwitchesAreFarther) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int top = builder.add({.kind = NodeKind::kBridge, .bus_id = "0000:01:00.0"});
  const int low = builder.add({.kind = NodeKind::kBridge, .bus_id = "0000:02:00.0"});
  const int a = builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:03:00.0", .number = 0});
  const int b = builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:04:00.0", .number = 1});
  for (const auto& [from, to] : {std::pair(top, numa), {low, top}, {a, low}, {b, top}}) {
    builder.link({from, to, GraphLinkKind::kPci, 10});
  }
  EXPECT_EQ(of_gpus(std::move(builder).build().value(), 0, 1).kind, PathClass::kPxb);
}

TEST(Paths, AreAsFastAsTheSlowestLinkWhoseRateIsKnown) {
  GraphBuilder builder;
  const int numa = builder.add({.kind = NodeKind::kNuma, .number = 0});
  const int a = builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:03:00.0", .number = 0});
  const int b = builder.add({.kind = NodeKind::kGpu, .bus_id = "0000:04:00.0", .number = 1});
  builder.link({a, numa, GraphLinkKind::kPci, 10});
  builder.link({b, numa, GraphLinkKind::kPci, 0});
  EXPECT_DOUBLE_EQ(of_gpus(std::move(builder).build().value(), 0, 1).gbs, 10);
}

TEST(Paths, OfATrayWithGrace) {
  const Graph graph = fixture("gb200-nvl72");
  EXPECT_EQ(of_gpus(graph, 0, 3).kind, PathClass::kNvl);
  EXPECT_DOUBLE_EQ(of_gpus(graph, 0, 3).gbs, 900);
  EXPECT_EQ(to_nic(graph, 0, 0).kind, PathClass::kP2c);
  EXPECT_DOUBLE_EQ(to_nic(graph, 0, 0).gbs, pci_gbs(32, 16));
  EXPECT_EQ(to_nic(graph, 0, 2).kind, PathClass::kSys);
  const int gpu = graph.gpus()[0];
  const Path path = path_between(graph, gpu, graph.numa_of(gpu));
  EXPECT_EQ(path.kind, PathClass::kC2c);
  EXPECT_DOUBLE_EQ(path.gbs, 225);
}

TEST(Paths, ClassesByName) {
  EXPECT_EQ(parse_path_class("phb"), PathClass::kPhb);
  EXPECT_EQ(parse_path_class("SYS"), PathClass::kSys);
  EXPECT_EQ(parse_path_class("PIXX"), std::nullopt);
  for (int i = 0; i <= static_cast<int>(PathClass::kNet); ++i) {
    const auto kind = static_cast<PathClass>(i);
    EXPECT_EQ(parse_path_class(name(kind)), kind);
  }
}

}  // namespace
}  // namespace rondo::topology
