// SPDX-License-Identifier: Apache-2.0
// The graph of a host: an error in one source does not disable the other sources.
#include "topology/graph/host_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/temporary_folder.h"

namespace rondo::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostGraphs : public ::testing::Test {
 protected:
  HostGraphs() {
    namespace fs = std::filesystem;
    const std::string device = "sys/devices/pci0000:00/0000:00:01.0";
    folder_.file(device + "/class", "0x030200\n");
    folder_.file(device + "/vendor", "0x10de\n");
    const fs::path devices = fs::path(folder_.path()) / "sys/bus/pci/devices";
    fs::create_directories(devices);
    fs::create_directory_symlink(fs::path(folder_.path()) / device, devices / "0000:00:01.0");
  }
  ~HostGraphs() override { ::unsetenv("RONDO_FAKE_NVML"); }

  HostGraph read(const char* nvml, const std::string& file = "") {
    ::setenv("RONDO_FAKE_NVML", nvml, 1);
    auto host =
        read_host_graph({.topology_file = file, .nvml = RONDO_FAKE_NVML, .root = folder_.path()});
    EXPECT_TRUE(host.ok()) << host.error().text;
    return std::move(host).value();
  }
  std::string write(const std::string& name, const std::string& devices) {
    return folder_.file(name, "<system><cpu numaid=\"0\">" + devices + "</cpu></system>");
  }

 private:
  const test::TemporaryFolder folder_;
};

constexpr const char* kOneGpu = "00000000:00:01.0 9.0 s s";
constexpr const char* kBehindASwitch =
    "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\">"
    "<pci busid=\"0000:00:01.0\" class=\"0x030200\"/></pci>";

TEST_F(HostGraphs, HasTheDriversTopology) {
  const HostGraph host = read(kOneGpu);
  EXPECT_THAT(host.notes, IsEmpty());
  ASSERT_EQ(host.graph.gpus().size(), 1u);
  EXPECT_EQ(host.graph.node(host.graph.gpus()[0]).compute, 90);
}

TEST_F(HostGraphs, ADriverThatDoesNotAnswerIsANote) {
  const HostGraph host = read("dead");
  EXPECT_THAT(host.notes, ElementsAre(HasSubstr("NVLinks are unknown: NVML")));
  EXPECT_EQ(host.graph.gpus().size(), 1u);
}

TEST_F(HostGraphs, LinksThatAreDownAreANote) {
  EXPECT_THAT(read("00000000:00:01.0 9.0 s d s").notes,
              ElementsAre("1 of 3 NVLinks of GPU 0 (0000:00:01.0) are down"));
}

TEST_F(HostGraphs, APlaceInAnNvLinkFabricIsANote) {
  EXPECT_THAT(read("00000000:00:01.0 10.0 s fabric=10,32766,3").notes,
              ElementsAre("NVLink fabric 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a, clique 32766: GPU 0; "
                          "NCCL_MNNVL_ENABLE=1 uses it between hosts"));
}

TEST_F(HostGraphs, ATopologyFileDefinesTheTree) {
  const HostGraph host = read(kOneGpu, write("topo.xml", kBehindASwitch));
  EXPECT_THAT(host.notes, IsEmpty());
  ASSERT_EQ(host.graph.gpus().size(), 1u);
  EXPECT_EQ(host.graph.above(host.graph.gpus()[0]), host.graph.find("ffff:ff:01.0"));
  EXPECT_GE(host.graph.nvswitch(), 0);
}

TEST_F(HostGraphs, TheDaemonsFileIsFound) {
  write("var/run/nvidia-topologyd/virtualTopology.xml", kBehindASwitch);
  const HostGraph host = read(kOneGpu);
  EXPECT_GE(host.graph.find("ffff:ff:01.0"), 0);
}

TEST_F(HostGraphs, AWrongFileIsReportedAndIgnored) {
  const HostGraph host = read(kOneGpu, write("topo.xml", "<pci busid=\"x\"/>"));
  EXPECT_THAT(host.wrong, HasSubstr("topo.xml, line 1: busid=\"x\""));
  EXPECT_THAT(host.wrong, HasSubstr("using what was detected"));
  EXPECT_THAT(host.notes, IsEmpty());
  EXPECT_EQ(host.graph.gpus().size(), 1u);
}

TEST_F(HostGraphs, AMissingFileIsReported) {
  const HostGraph host = read(kOneGpu, "/nowhere/topo.xml");
  EXPECT_THAT(host.wrong, HasSubstr("/nowhere/topo.xml"));
  EXPECT_EQ(host.graph.gpus().size(), 1u);
}

// A container that hides /sys while CUDA still sees the GPUs.
TEST_F(HostGraphs, GpusThatSysHidesAreCudas) {
  const test::TemporaryFolder nothing;
  const HostGraphOptions hidden{.gpus = {"0000:00:01.0", "00000000:00:01.0", "", "nonsense"},
                                .nvml = "/nowhere/libnvidia-ml.so",
                                .root = nothing.path()};
  const auto host = read_host_graph(hidden);
  ASSERT_TRUE(host.ok()) << host.error().text;
  ASSERT_EQ(host->graph.gpus().size(), 1u);
  EXPECT_EQ(host->graph.node(host->graph.gpus()[0]).source, Source::kCuda);
  EXPECT_THAT(host->notes,
              ElementsAre("/sys does not show GPU 0000:00:01.0", HasSubstr("NVLinks are unknown")));
  // The topology file takes precedence.
  HostGraphOptions with_file = hidden;
  with_file.topology_file = write("topo.xml", kBehindASwitch);
  const auto joined = read_host_graph(with_file);
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  EXPECT_EQ(joined->graph.above(joined->graph.gpus()[0]), joined->graph.find("ffff:ff:01.0"));
}

}  // namespace
}  // namespace rondo::topology
