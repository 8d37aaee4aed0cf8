// SPDX-License-Identifier: Apache-2.0
// rondo topo --channels on the command line: its output for machines of tests/topology, and its
// refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace {

ShellResult topo(const std::string& machine, const std::string& words) {
  const std::string file = machine.empty() ? "" : " --nccl-xml " RONDO_FIXTURES_DIR "/" + machine;
  return shell(RONDO_PROGRAM " topo" + file + " " + words);
}

TEST(TopoCommand, ShowsTheRingsOfAHost) {
  const ShellResult output = topo("dgx-1v.xml", "--channels");
  EXPECT_EQ(output.status, 0);
  EXPECT_NE(output.text.find("6 channels of 25 GB/s each: 150 GB/s into and out of each GPU; the "
                             "wires allow 156\n"),
            std::string::npos)
      << output.text;
  EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 2 + 6);
}

TEST(TopoCommand, KnowsTheMachinesOfExplainByName) {
  const ShellResult named = shell(RONDO_PROGRAM " topo --topo dgx-h100 --json");
  EXPECT_EQ(named.status, 0);
  EXPECT_EQ(named.text, topo("dgx-h100.xml", "--json").text);
  EXPECT_NE(shell(RONDO_PROGRAM " topo --topo dgx-h100 --matrix").text.find("NV"),
            std::string::npos);
  const ShellResult unknown = shell(RONDO_PROGRAM " topo --topo nowhere");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.text.find("there are: "), std::string::npos) << unknown.text;
}

TEST(TopoCommand, ShowsTheWaysThroughEachOfSeveralHosts) {
  const ShellResult output =
      topo("pcie-8-two-sockets.xml", "--channels --hosts 2 --cross-nic 0 --json");
  ASSERT_EQ(output.status, 0) << output.text;
  const auto json = nlohmann::json::parse(output.text);
  EXPECT_DOUBLE_EQ(json["gbs"], 22);
  EXPECT_DOUBLE_EQ(json["bound_gbs"], 22);
  EXPECT_EQ(json["slowest"], "NUMA node 0 to NUMA node 1");
  ASSERT_EQ(json["channels"].size(), 1u);
  EXPECT_EQ(json["channels"][0]["gpus"].size(), 8u);
  EXPECT_EQ(json["channels"][0]["in"], json["channels"][0]["out"]);
  const ShellResult any = topo("pcie-8-two-sockets.xml", "--channels --hosts 2");
  EXPECT_NE(any.text.find("2 channels of 15.75 GB/s each"), std::string::npos) << any.text;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(TopoCommand, DrawsEachChannelInAFrameOfItsOwn) {
  const std::string drawn = topo("hgx-a100-4.xml", "--channels --dot").text;
  EXPECT_EQ(count(drawn, "cluster_channel"), 6);
  EXPECT_EQ(count(drawn, "dir=forward"), 6 * 4);       // six rings of four hops
  EXPECT_EQ(count(drawn, "penwidth=1.6"), 6 * 2 * 3);  // two trees of three edges
  const std::string way = topo("hgx-a100-4.xml", "--channels --hosts 2 --dot").text;
  EXPECT_EQ(count(way, "penwidth=1.6"), 0) << "trees of several hosts are not one host's";
  EXPECT_NE(way.find("mlx5_0"), std::string::npos);
}

bool has_graphviz() { return shell("dot -V").status == 0; }

TEST(TopoCommand, WritesThePictureByGraphviz) {
  if (!has_graphviz()) GTEST_SKIP() << "there is no graphviz";
  const rondo::test::TemporaryFolder folder;
  const std::string file = folder.path() + "/host.svg";
  const ShellResult output = topo("dgx-1v.xml", "--channels --svg " + file);
  ASSERT_EQ(output.status, 0) << output.text;
  const std::string svg = shell("cat " + file).text;
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("NUMA node 1"), std::string::npos);
  EXPECT_NE(svg.find("channel 5: 25 GB/s"), std::string::npos);
  EXPECT_EQ(topo("dgx-1v.xml", "--svg /nowhere/host.svg").status, 1);
  EXPECT_EQ(topo("dgx-1v.xml", "--svg " + file + " --matrix").status, 2);
}

// A shell script in place of graphviz's program.
ShellResult topo_with_dot(const std::string& script) {
  const rondo::test::TemporaryFolder folder;
  folder.file("dot", "#!/bin/sh\n" + script + "\n");
  shell("chmod 755 " + folder.path() + "/dot");
  return shell("PATH=" + folder.path() +
               ":$PATH; " RONDO_PROGRAM " topo --nccl-xml " RONDO_FIXTURES_DIR
               "/one-gpu.xml --svg " +
               folder.path() + "/host.svg && cat " + folder.path() + "/host.svg");
}

TEST(TopoCommand, ReportsWhyGraphvizDrewNothing) {
  EXPECT_EQ(topo_with_dot("cat >/dev/null; echo picture").text, "picture\n");
  const ShellResult failed = topo_with_dot("echo no memory >&2; exit 3");
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.text.find("failed: no memory"), std::string::npos) << failed.text;
  EXPECT_EQ(topo_with_dot("exit 0").status, 1) << "a picture of nothing";
  // More than a pipe holds, on both outputs.
  const ShellResult much = topo_with_dot("head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero");
  EXPECT_EQ(much.status, 0);
  EXPECT_EQ(much.text.size(), 300000u);
  const rondo::test::TemporaryFolder empty;
  const ShellResult none = shell("PATH=" + empty.path() +
                                 " " RONDO_PROGRAM " topo --nccl-xml " RONDO_FIXTURES_DIR
                                 "/one-gpu.xml --svg /tmp/never.svg");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.text.find("install the package graphviz"), std::string::npos) << none.text;
}

TEST(TopoCommand, ReportsWhereNoChannelIs) {
  EXPECT_NE(topo("one-gpu.xml", "--channels").text.find("there is only one GPU"),
            std::string::npos);
  const ShellResult none = topo("cpu-box.xml", "--channels");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.text.find("this host has no GPU"), std::string::npos) << none.text;
  EXPECT_EQ(topo("dgx-1v.xml", "--hosts 2").status, 2);
  EXPECT_EQ(topo("dgx-1v.xml", "--channels --hosts 0").status, 2);
  EXPECT_EQ(topo("dgx-1v.xml", "--channels --cross-nic 1").status, 2);
}

// Files that would block a user at a terminal or never end. "timeout" ends with 124.
TEST(TopoCommand, WaitsForNoFifoThatAVariableNames) {
  const rondo::test::TemporaryFolder folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(shell("mkfifo " + fifo).status, 0);
  const std::string words = " --topo-file " + fifo;
  EXPECT_NE(shell("timeout 300 " RONDO_PROGRAM " topo" + words).text.find("it is a FIFO"),
            std::string::npos);
  const ShellResult xml = shell("RONDO_TOPO_XML=" + fifo + " timeout 300 " RONDO_PROGRAM " topo");
  EXPECT_NE(xml.text.find("it is a FIFO"), std::string::npos) << xml.text;
  for (const std::string& file : {fifo, std::string("/dev/zero")}) {
    const ShellResult conf =
        shell("NCCL_CONF_FILE=" + file + " timeout 300 " RONDO_PROGRAM " doctor");
    EXPECT_NE(conf.status, 124);
    EXPECT_NE(conf.text.find("cannot read the configuration file '" + file + "': it is a "),
              std::string::npos)
        << conf.text;
  }
}

TEST(TopoCommand, ShowsNoDeviceOfThisMachineBesideAnother) {
  const std::string other = "--synthetic 'numa:2 core:4 pu:1'";
  const ShellResult json = topo("", other + " --json");
  EXPECT_EQ(json.status, 0) << json.text;
  EXPECT_EQ(json.text.find("NIC port"), std::string::npos) << json.text;
  EXPECT_EQ(topo("", other + " --matrix").status, 0);
  EXPECT_EQ(topo("", other + " --topo-file " RONDO_FIXTURES_DIR "/dgx-h100.xml").status, 2);
}

}  // namespace
