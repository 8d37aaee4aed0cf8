// SPDX-License-Identifier: Apache-2.0
// The graph of a simulated /sys.
#include "topology/graph/sysfs_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/temporary_folder.h"
#include "topology/graph/describe_graph.h"
#include "topology/graph/paths.h"
#include "topology/graph/rates.h"

namespace rondo::topology {
namespace {

namespace fs = std::filesystem;

class SysfsGraph : public ::testing::Test {
 protected:
  SysfsGraph() {
    write("proc/cpuinfo",
          "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
          "model name\t: Xeon\n");
    write("sys/devices/system/node/online", "0-1\n");
    write("sys/devices/system/node/node0/cpulist", "0-7\n");
    write("sys/devices/system/node/node1/cpulist", "8-15\n");
  }

  void write(const std::string& name, const std::string& text) { folder_.file(name, text); }
  // `path`: relative to /sys/devices, as "pci0000:00/0000:00:01.0".
  void device(const std::string& path, const char* code, const char* vendor, const char* speed,
              int lanes, int numa) {
    const std::string base = "sys/devices/" + path;
    write(base + "/class", code);
    write(base + "/vendor", vendor);
    write(base + "/max_link_speed", speed);
    write(base + "/current_link_width", std::to_string(lanes) + "\n");
    write(base + "/numa_node", std::to_string(numa) + "\n");
    const fs::path devices = fs::path(folder_.path()) / "sys/bus/pci/devices";
    fs::create_directories(devices);
    fs::create_directory_symlink(fs::path(folder_.path()) / base,
                                 devices / fs::path(path).filename());
  }
  void bridge(const std::string& path, const char* speed = "16.0 GT/s PCIe\n", int lanes = 16) {
    device(path, "0x060400\n", "0x1000\n", speed, lanes, 0);
  }
  void gpu(const std::string& path, int lanes = 16, int numa = 0) {
    device(path, "0x030200\n", "0x10de\n", "32.0 GT/s PCIe\n", lanes, numa);
  }
  void adapter(const std::string& path, int numa = 0) {
    device(path, "0x020000\n", "0x15b3\n", "16.0 GT/s PCIe\n", 16, numa);
  }
  // An entry of /sys/class whose "device" link points below /sys/devices.
  void entry(const std::string& name, const std::string& path) {
    const fs::path at = fs::path(folder_.path()) / "sys/class" / name;
    fs::create_directories(at);
    fs::create_directories(fs::path(folder_.path()) / "sys/devices" / path);
    fs::create_directory_symlink(fs::path(folder_.path()) / "sys/devices" / path, at / "device");
  }
  void rdma_port(const std::string& name, const char* state, const char* rate) {
    write("sys/class/infiniband/" + name + "/ports/1/state", state);
    write("sys/class/infiniband/" + name + "/ports/1/rate", rate);
  }
  Graph read() const {
    auto graph = read_sysfs_graph(folder_.path());
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().text);
    return std::move(graph).value();
  }
  static PathClass between(const Graph& graph, const char* a, const char* b) {
    return path_between(graph, graph.find(a), graph.find(b)).kind;
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(SysfsGraph, AMachineWithoutDevicesHasItsNumaNodes) {
  const Graph graph = read();
  ASSERT_EQ(graph.numa_nodes().size(), 2u);
  EXPECT_EQ(to_text(graph.node(graph.numa_nodes()[1]).cpus), "8-15");
  EXPECT_TRUE(graph.gpus().empty());
  EXPECT_EQ(graph.cpu().vendor, "GenuineIntel");
  EXPECT_EQ(graph.cpu().model, 143);
}

TEST_F(SysfsGraph, ASwitchIsOneBridge) {
  const std::string root = "pci0000:00/0000:00:01.0", up = root + "/0000:01:00.0";
  bridge(root);
  bridge(up);
  for (const char* down : {"/0000:02:00.0", "/0000:02:01.0"}) bridge(up + down);
  gpu(up + "/0000:02:00.0/0000:03:00.0");
  gpu(up + "/0000:02:01.0/0000:04:00.0");
  bridge("pci0000:00/0000:00:02.0");
  gpu("pci0000:00/0000:00:02.0/0000:05:00.0");
  bridge("pci0000:80/0000:80:01.0");
  gpu("pci0000:80/0000:80:01.0/0000:81:00.0", 16, 0);  // another root complex, the same node
  bridge("pci0000:c0/0000:c0:01.0");
  gpu("pci0000:c0/0000:c0:01.0/0000:c1:00.0", 16, 1);
  const Graph graph = read();
  ASSERT_EQ(graph.gpus().size(), 5u);
  EXPECT_EQ(between(graph, "0000:03:00.0", "0000:04:00.0"), PathClass::kPix);
  EXPECT_EQ(between(graph, "0000:03:00.0", "0000:05:00.0"), PathClass::kPhb);
  EXPECT_EQ(between(graph, "0000:03:00.0", "0000:81:00.0"), PathClass::kPhb);
  EXPECT_EQ(between(graph, "0000:03:00.0", "0000:c1:00.0"), PathClass::kSys);
  const int node = graph.find("0000:01:00.0");
  EXPECT_EQ(std::count_if(graph.links().begin(), graph.links().end(),
                          [&](const GraphLink& link) { return link.from == node; }),
            1)
      << describe(graph);
  EXPECT_LT(graph.find("0000:02:00.0"), 0) << "its ports are no bridges of their own";
  // The GPU supports a faster link than the switch's port.
  EXPECT_DOUBLE_EQ(graph.up(graph.find("0000:03:00.0"))->gbs, pci_gbs(16, 16));
}

TEST_F(SysfsGraph, SwitchesBelowASwitch) {
  const std::string up = "pci0000:00/0000:00:01.0/0000:01:00.0";
  bridge("pci0000:00/0000:00:01.0");
  bridge(up);
  bridge(up + "/0000:02:00.0");
  bridge(up + "/0000:02:01.0");
  bridge(up + "/0000:02:00.0/0000:03:00.0");
  bridge(up + "/0000:02:00.0/0000:03:00.0/0000:04:00.0");
  gpu(up + "/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0");
  gpu(up + "/0000:02:01.0/0000:06:00.0");
  const Graph graph = read();
  EXPECT_EQ(between(graph, "0000:05:00.0", "0000:06:00.0"), PathClass::kPxb);
  EXPECT_EQ(graph.above(graph.find("0000:05:00.0")), graph.find("0000:03:00.0"));
  EXPECT_EQ(graph.above(graph.find("0000:03:00.0")), graph.find("0000:01:00.0"));
}

TEST_F(SysfsGraph, LanesAreThoseInUse) {
  bridge("pci0000:00/0000:00:01.0", "32.0 GT/s PCIe\n");
  gpu("pci0000:00/0000:00:01.0/0000:01:00.0", 8);
  const Graph graph = read();
  EXPECT_DOUBLE_EQ(graph.up(graph.gpus()[0])->gbs, pci_gbs(32, 8));
}

TEST_F(SysfsGraph, OtherDisplaysAreNoGpus) {
  device("pci0000:00/0000:00:02.0", "0x030000\n", "0x1a03\n", "2.5 GT/s PCIe\n", 1, 0);
  EXPECT_TRUE(read().gpus().empty());
}

TEST_F(SysfsGraph, PortsAreOfRdmaWhereAnAdapterHasThem) {
  adapter("pci0000:00/0000:00:01.0/0000:01:00.0", 1);
  entry("infiniband/mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0");
  entry("net/eth1", "pci0000:00/0000:00:01.0/0000:01:00.0");
  rdma_port("mlx5_0", "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n");
  const Graph graph = read();
  ASSERT_EQ(graph.nics().size(), 1u);
  const GraphNode& nic = graph.node(graph.nics()[0]);
  EXPECT_EQ(nic.name, "mlx5_0");
  EXPECT_EQ(nic.port, 1);
  EXPECT_DOUBLE_EQ(nic.port_gbs, 25);
  EXPECT_EQ(graph.node(graph.numa_of(graph.nics()[0])).number, 1);
}

TEST_F(SysfsGraph, PortsThatAreDownAreLeftOut) {
  adapter("pci0000:00/0000:00:01.0/0000:01:00.0");
  entry("infiniband/mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0");
  rdma_port("mlx5_0", "1: DOWN\n", "10 Gb/sec (4X SDR)\n");
  adapter("pci0000:00/0000:00:03.0");
  entry("net/eth0", "pci0000:00/0000:00:03.0");
  for (const char* state : {"down\n", "lowerlayerdown\n"}) {
    write("sys/class/net/eth0/operstate", state);
    EXPECT_TRUE(read().nics().empty()) << state;
  }
  write("sys/class/net/eth0/operstate", "unknown\n");  // some drivers never report a state
  EXPECT_EQ(read().nics().size(), 1u);
}

TEST_F(SysfsGraph, InterfacesStandUnderTheirPciDevice) {
  adapter("pci0000:00/0000:00:03.0");
  entry("net/eth0", "pci0000:00/0000:00:03.0/virtio2");
  write("sys/class/net/eth0/speed", "10000\n");
  entry("net/veth0", "virtual/net/veth0");
  const Graph graph = read();
  ASSERT_EQ(graph.nics().size(), 1u);
  const GraphNode& nic = graph.node(graph.nics()[0]);
  EXPECT_EQ(nic.bus_id, "0000:00:03.0");
  EXPECT_DOUBLE_EQ(nic.port_gbs, 1.25);
}

TEST_F(SysfsGraph, SoftRoceStandsWhereItsInterfaceDoes) {
  adapter("pci0000:00/0000:00:03.0");
  entry("net/eth0", "pci0000:00/0000:00:03.0/virtio2");
  write("sys/class/infiniband/rxe0/parent", "eth0\n");
  rdma_port("rxe0", "4: ACTIVE\n", "10 Gb/sec (1X QDR)\n");
  const Graph graph = read();
  ASSERT_EQ(graph.nics().size(), 1u) << describe(graph);
  EXPECT_EQ(graph.node(graph.nics()[0]).name, "rxe0");
  EXPECT_EQ(graph.node(graph.nics()[0]).bus_id, "0000:00:03.0");
}

TEST(SysfsGraphHere, EthernetHangsFromItsDevice) {
  const auto graph = read_sysfs_graph();
  ASSERT_TRUE(graph.ok()) << graph.error().text;
  ASSERT_FALSE(graph->numa_nodes().empty());
  std::error_code none;
  const fs::path device = fs::canonical("/sys/class/net/eth0/device", none);
  std::string bus_id;
  for (const fs::path& part : device) {
    if (!normal_bus_id(part.string()).empty()) bus_id = part.string();
  }
  if (bus_id.empty()) GTEST_SKIP() << "this machine's eth0 is no PCI device";
  const auto eth0 = std::find_if(graph->nics().begin(), graph->nics().end(),
                                 [&](int nic) { return graph->node(nic).bus_id == bus_id; });
  EXPECT_NE(eth0, graph->nics().end()) << describe(*graph);
}

TEST(SysfsGraphHere, AHiddenSysIsAGraphWithoutDevices) {
  const auto graph = read_sysfs_graph("/nowhere");
  ASSERT_TRUE(graph.ok()) << graph.error().text;
  EXPECT_EQ(graph->numa_nodes().size(), 1u);
  EXPECT_TRUE(graph->gpus().empty());
}

}  // namespace
}  // namespace rondo::topology
