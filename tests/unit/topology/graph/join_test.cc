// SPDX-License-Identifier: Apache-2.0
// Joins a topology file with the detected hardware.
#include "topology/graph/host_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fixtures.h"
#include "topology/graph/paths.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Graph parsed(const std::string& devices) {
  auto graph = parse_nccl_xml("<system><cpu numaid=\"0\">" + devices + "</cpu></system>", "test");
  EXPECT_TRUE(graph.ok()) << graph.error().text;
  return std::move(graph->graph);
}

std::string gpu(const char* bus_id, const std::string& inside = "") {
  return fmt::format(
      "<pci busid=\"{}\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\">{}</pci>",
      bus_id, inside);
}

std::string bare(const char* bus_id, const char* code) {
  return fmt::format("<pci busid=\"{}\" class=\"{}\"/>", bus_id, code);
}

std::string bridge(const std::string& below) {
  return "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\">" + below + "</pci>";
}

JoinedGraph joined(const Graph& file, const Graph& found) {
  auto both = join(file, found);
  EXPECT_TRUE(both.ok()) << both.error().text;
  return std::move(both).value();
}

TEST(JoinGraphs, AGraphWithItselfIsItself) {
  for (const std::string& name : test::fixture_names()) {
    const Graph graph = test::fixture(name);
    const JoinedGraph both = joined(graph, graph);
    EXPECT_EQ(both.graph.digest(), graph.digest()) << name;
    EXPECT_THAT(both.differences, IsEmpty()) << name;
  }
}

TEST(JoinGraphs, TheFilesTreeAndTheDriversFacts) {
  const Graph file =
      parsed(bridge(bare("0000:10:1c.0", "0x030200") + bare("0000:10:1b.0", "0x020000")));
  const Graph found = parsed(
      gpu("0000:10:1c.0",
          "<gpu dev=\"3\" sm=\"80\">"
          "<nvlink target=\"0\" count=\"12\" tclass=\"0x068000\"/></gpu>") +
      "<pci busid=\"0000:10:1b.0\" class=\"0x020000\" link_speed=\"8 GT/s\" link_width=\"16\"><nic>"
      "<net name=\"efa0\" dev=\"0\" speed=\"100000\" port=\"1\"/></nic></pci>");
  const JoinedGraph both = joined(file, found);
  EXPECT_THAT(both.differences, IsEmpty());
  const Graph& graph = both.graph;
  ASSERT_EQ(graph.gpus().size(), 1u);
  ASSERT_EQ(graph.nics().size(), 1u);
  EXPECT_EQ(graph.node(graph.gpus()[0]).number, 3);
  EXPECT_EQ(graph.node(graph.gpus()[0]).compute, 80);
  EXPECT_EQ(graph.node(graph.nics()[0]).name, "efa0");
  EXPECT_DOUBLE_EQ(graph.node(graph.nics()[0]).port_gbs, 12.5);
  EXPECT_EQ(path_between(graph, graph.gpus()[0], graph.nics()[0]).kind, PathClass::kPix);
  EXPECT_DOUBLE_EQ(graph.up(graph.gpus()[0])->gbs, pci_gbs(16, 16));
  ASSERT_GE(graph.nvswitch(), 0);
  EXPECT_EQ(graph.between(graph.gpus()[0], graph.nvswitch())->count, 12);
}

TEST(JoinGraphs, TheFilesRatesAndLinksCount) {
  const std::string links =
      "<gpu dev=\"0\" sm=\"80\"><nvlink target=\"0\" count=\"{}\" tclass=\"0x068000\"/></gpu>";
  const Graph file = parsed(gpu("0000:01:00.0", fmt::format(fmt::runtime(links), 6)));
  const Graph found = parsed(
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\" "
      "link_speed=\"2.5 GT/s PCIe\" link_width=\"1\">" +
      fmt::format(fmt::runtime(links), 12) + "</pci>");
  const Graph graph = joined(file, found).graph;
  EXPECT_DOUBLE_EQ(graph.up(graph.gpus()[0])->gbs, pci_gbs(16, 16));
  EXPECT_EQ(graph.between(graph.gpus()[0], graph.nvswitch())->count, 6);
}

TEST(JoinGraphs, WhatIsNotHereIsLeftOutAndNamed) {
  const Graph file = parsed(gpu("0000:01:00.0") + gpu("0000:02:00.0"));
  const Graph found = parsed(gpu("0000:01:00.0") + gpu("0000:09:00.0"));
  const JoinedGraph both = joined(file, found);
  ASSERT_EQ(both.graph.gpus().size(), 2u);
  EXPECT_LT(both.graph.find("0000:02:00.0"), 0);
  EXPECT_GE(both.graph.find("0000:09:00.0"), 0);
  EXPECT_THAT(both.differences, ElementsAre("GPU 0000:02:00.0 is not on this host",
                                            "GPU 0000:09:00.0  is not in the file"));
}

TEST(JoinGraphs, AllPortsOfAnAdapterThatTheFileOnlyNames) {
  const Graph file = parsed(bridge(bare("0000:10:00.0", "0x020000")));
  const Graph found = parsed(
      "<pci busid=\"0000:10:00.0\" class=\"0x020000\"><nic>"
      "<net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\"/>"
      "<net name=\"mlx5_0\" dev=\"1\" speed=\"100000\" port=\"2\"/>"
      "</nic></pci>");
  const JoinedGraph both = joined(file, found);
  EXPECT_THAT(both.differences, IsEmpty());
  ASSERT_EQ(both.graph.nics().size(), 2u);
  for (const int nic : both.graph.nics()) {
    EXPECT_EQ(both.graph.above(nic), both.graph.find("ffff:ff:01.0"));
  }
}

TEST(JoinGraphs, PortsAreTheSameByTheirNumber) {
  const std::string ports =
      "<pci busid=\"0000:10:00.0\" class=\"0x020000\"><nic>{}"
      "<net name=\"{}\" dev=\"1\" speed=\"100000\" port=\"2\"/></nic></pci>";
  const std::string first = "<net name=\"\" dev=\"0\" speed=\"25000\" port=\"1\"/>";
  const Graph file = parsed(fmt::format(fmt::runtime(ports), "", "rail"));
  const Graph found = parsed(fmt::format(fmt::runtime(ports), first, "mlx5_0"));
  const JoinedGraph both = joined(file, found);
  EXPECT_THAT(both.differences, IsEmpty());
  ASSERT_EQ(both.graph.nics().size(), 2u);
  EXPECT_EQ(both.graph.node(both.graph.nics()[0]).port, 1);
  EXPECT_EQ(both.graph.node(both.graph.nics()[1]).name, "rail");
}

}  // namespace
}  // namespace rondo::topology
