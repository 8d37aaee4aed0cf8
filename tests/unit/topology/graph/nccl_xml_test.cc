// SPDX-License-Identifier: Apache-2.0
// Reads and writes NCCL's topology files.
#include "topology/graph/nccl_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fixtures.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

using ::testing::HasSubstr;

std::string with_devices(const std::string& devices) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\">\n" +
         devices + "\n</cpu>\n</system>\n";
}

Error refused(const std::string& text) {
  const auto parsed = parse_nccl_xml(text, "topo.xml");
  EXPECT_FALSE(parsed.ok()) << text;
  return parsed.ok() ? Error{} : parsed.error();
}

class Fixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(Fixtures, AreTheSameOnceWrittenAndRead) {
  const Graph graph = test::fixture(GetParam());
  const std::string written = write_nccl_xml(graph);
  const auto again = parse_nccl_xml(written, "written");
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_THAT(again->not_understood, ::testing::IsEmpty());
  EXPECT_EQ(graph, again->graph) << written;
  EXPECT_EQ(graph.digest(), again->graph.digest());
}

INSTANTIATE_TEST_SUITE_P(NcclXml, Fixtures, ::testing::ValuesIn(test::fixture_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(NcclXml, HasGpusPortsAndTheirRates) {
  const Graph graph = test::fixture("dgx-a100");
  ASSERT_EQ(graph.gpus().size(), 8u);
  ASSERT_EQ(graph.nics().size(), 8u);
  EXPECT_EQ(graph.numa_nodes().size(), 8u);
  const GraphNode& nic = graph.node(graph.nics()[5]);
  EXPECT_EQ(nic.name, "mlx5_5");
  EXPECT_DOUBLE_EQ(nic.port_gbs, 25);
  const GraphNode& gpu = graph.node(graph.gpus()[2]);
  EXPECT_EQ(gpu.bus_id, "0000:47:00.0");
  EXPECT_EQ(gpu.compute, 80);
  EXPECT_EQ(graph.node(graph.numa_of(graph.gpus()[2])).number, 1);
  EXPECT_EQ(to_text(graph.node(graph.numa_of(graph.gpus()[2])).cpus), "16-31,144-159");
  EXPECT_DOUBLE_EQ(graph.up(graph.gpus()[2])->gbs, pci_gbs(16, 16));
}

TEST(NcclXml, DevicesWithoutDetailsAsCloudsPublishThem) {
  const auto parsed = parse_nccl_xml(
      with_devices("<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"8 GT/s\" "
                   "link_width=\"16\" vendor=\"0xffff\">\n"
                   "<pci busid=\"0000:10:1c.0\" class=\"0x030200\"/>\n"
                   "<pci busid=\"0000:10:1b.0\" class=\"0x020000\"/>\n</pci>"),
      "cloud.xml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  const Graph& graph = parsed->graph;
  ASSERT_EQ(graph.gpus().size(), 1u);
  ASSERT_EQ(graph.nics().size(), 1u);
  EXPECT_EQ(graph.node(graph.gpus()[0]).number, -1);
  EXPECT_EQ(graph.up(graph.gpus()[0])->gbs, 0);
  EXPECT_EQ(graph.above(graph.gpus()[0]), graph.find("ffff:ff:01.0"));
  const auto again = parse_nccl_xml(write_nccl_xml(graph), "written");
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(graph, again->graph);
}

TEST(NcclXml, PortsOfOneAdapterStayTogether) {
  const auto parsed = parse_nccl_xml(
      with_devices("<pci busid=\"0000:10:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" "
                   "link_width=\"8\"><nic>"
                   "<net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\"/>"
                   "<net name=\"mlx5_0\" dev=\"1\" speed=\"100000\" port=\"2\"/></nic></pci>"
                   "<nic><net name=\"eth0\" dev=\"2\" speed=\"10000\" port=\"0\"/></nic>"),
      "ports.xml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  ASSERT_EQ(parsed->graph.nics().size(), 3u);
  EXPECT_EQ(parsed->graph.node(parsed->graph.nics()[1]).port, 2);
  EXPECT_EQ(parsed->graph.node(parsed->graph.nics()[2]).bus_id, "");
  const std::string written = write_nccl_xml(parsed->graph);
  const auto again = parse_nccl_xml(written, "written");
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(parsed->graph, again->graph) << written;
  const auto first = written.find("0000:10:00.0");
  ASSERT_NE(first, std::string::npos) << written;
  EXPECT_EQ(written.find("0000:10:00.0", first + 1), std::string::npos) << "one adapter\n"
                                                                        << written;
}

TEST(NcclXml, WhatIsNotUnderstoodIsNamedOnce) {
  const auto parsed = parse_nccl_xml(
      with_devices("<pci busid=\"0000:10:00.0\" class=\"0x038000\"><gpu dev=\"0\" gcn=\"908\">\n"
                   "<xgmi target=\"0000:11:00.0\"/><xgmi target=\"0000:12:00.0\"/></gpu></pci>\n"
                   "<pci busid=\"0000:13:00.0\" class=\"0x010802\"/>"),
      "amd.xml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  EXPECT_THAT(
      parsed->not_understood,
      ::testing::ElementsAre("attribute gcn of <gpu>, line 3", "element <xgmi> in <gpu>, line 4",
                             "PCI devices of class 0x010802, line 5"));
}

TEST(NcclXml, RefusesWithFileAndLine) {
  EXPECT_THAT(refused("<system>\n<cpu>\n</system>").text, HasSubstr("topo.xml, line 3"));
  EXPECT_THAT(refused("").text, HasSubstr("topo.xml"));
  EXPECT_THAT(refused("<topology/>").text, HasSubstr("it has no <system>, but <topology>"));
  const Error bus = refused(with_devices("<pci busid=\"17\" class=\"0x030200\"/>"));
  EXPECT_EQ(bus.code, StatusCode::kInvalidArgument);
  EXPECT_THAT(bus.text, HasSubstr("topo.xml, line 3: busid=\"17\""));
  EXPECT_THAT(refused(with_devices("<pci busid=\"0000:01:00.0\" class=\"gpu\"/>")).text,
              HasSubstr("class=\"gpu\""));
  EXPECT_THAT(refused(with_devices("<pci busid=\"0000:01:00.0\" class=\"0x030200\">"
                                   "<gpu dev=\"-1\"/></pci>"))
                  .text,
              HasSubstr("dev=\"-1\" of <gpu> is not a number"));
  EXPECT_THAT(refused(with_devices("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\">"
                                   "<nvlink target=\"0000:99:00.0\" tclass=\"0x030200\"/>"
                                   "</gpu></pci>"))
                  .text,
              HasSubstr("target=\"0000:99:00.0\" is not another GPU of this file"));
  const std::string one = "<pci busid=\"0000:01:00.0\" class=\"0x030200\"/>";
  EXPECT_THAT(refused(with_devices(one + one)).text, HasSubstr("0000:01:00.0 occurs twice"));
  EXPECT_THAT(refused("<system><cpu affinity=\"xyz\"/></system>").text, HasSubstr("\"xyz\""));
}

// As a file of a cloud's virtual machines has it.
TEST(NcclXml, NotesAnNvLinkOfAGpuToItself) {
  const auto parsed =
      parse_nccl_xml(with_devices("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\">"
                                  "<nvlink target=\"0000:01:00.0\" tclass=\"0x030200\"/>"
                                  "</gpu></pci>"),
                     "topo.xml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  ASSERT_EQ(parsed->not_understood.size(), 1u);
  EXPECT_THAT(parsed->not_understood[0],
              HasSubstr("an NVLink of GPU 0000:01:00.0 to itself, line"));
  EXPECT_EQ(parsed->graph.gpus().size(), 1u);
}

TEST(NcclXml, RefusesBridgesWithoutEnd) {
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "<pci busid=\"0000:01:00.0\" class=\"0x060400\">";
  for (int i = 0; i < 2000; ++i) deep += "</pci>";
  EXPECT_THAT(refused(with_devices(deep)).text, HasSubstr("bridges in a row"));
}

TEST(NcclXml, AFileThatIsNotThere) {
  const auto parsed = read_nccl_xml("/nowhere/topo.xml");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, StatusCode::kSystemError);
  EXPECT_THAT(parsed.error().text, HasSubstr("/nowhere/topo.xml"));
}

}  // namespace
}  // namespace rondo::topology
