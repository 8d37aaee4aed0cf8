// SPDX-License-Identifier: Apache-2.0
// Results of discover() on described, imported, real and unreadable machines.
#include "topology/host_topology.h"

#include <gtest/gtest.h>
#include <hwloc.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/temporary_folder.h"
#include "topology/cpu_budget.h"

namespace rondo::topology {
namespace {

HostTopology described(const std::string& synthetic) {
  DiscoverOptions options;
  options.synthetic = synthetic;
  auto host = discover(options);
  EXPECT_TRUE(host.ok()) << (host.ok() ? "" : host.error().text);
  return host.ok() ? *host : HostTopology{};
}

using test::TemporaryFolder;

TEST(HostTopology, ADescribedMachineHasTheNodesCachesAndThreadsOfItsDescription) {
  const HostTopology host = described("numa:2 l3:1 core:8 pu:2");
  EXPECT_EQ(host.cores_total, 32);
  EXPECT_EQ(host.cores_usable, 32);
  ASSERT_EQ(host.numa_nodes.size(), 2u);
  EXPECT_EQ(to_text(host.numa_nodes[0].cpus), "0-15");
  EXPECT_EQ(to_text(host.numa_nodes[1].cpus), "16-31");
  ASSERT_EQ(host.l3_caches.size(), 2u);
  EXPECT_EQ(host.l3_caches[1].cpus, host.numa_nodes[1].cpus);
  EXPECT_GT(host.l3_bytes, 0u);
  ASSERT_EQ(host.physical_cores.size(), 16u);
  EXPECT_EQ(to_text(host.physical_cores[3]), "6-7");
  EXPECT_GT(host.memory_bytes, 0u);
  EXPECT_EQ(host.source, "synthetic numa:2 l3:1 core:8 pu:2");
}

TEST(HostTopology, OneCoreWithoutCachesIsAMachineToo) {
  const HostTopology host = described("pu:1");
  EXPECT_EQ(host.cores_total, 1);
  EXPECT_EQ(host.numa_nodes.size(), 1u);
  EXPECT_EQ(host.packages.size(), 1u);
  EXPECT_EQ(host.physical_cores.size(), 1u);
  EXPECT_TRUE(host.l3_caches.empty());
  EXPECT_EQ(host.l3_bytes, 0u);
}

TEST(HostTopology, ADescriptionThatMakesNoSenseIsRefusedWithItsText) {
  DiscoverOptions options;
  options.synthetic = "numa:two core";
  const auto host = discover(options);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(host.error().text.find("numa:two core"), std::string::npos);
}

TEST(HostTopology, AnXmlFileGivesTheMachineThatWroteIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/machine.xml";
  hwloc_topology_t topology;
  ASSERT_EQ(hwloc_topology_init(&topology), 0);
  ASSERT_EQ(hwloc_topology_set_synthetic(topology, "package:2 numa:1 l3:2 l2:4 core:1 pu:2"), 0);
  ASSERT_EQ(hwloc_topology_load(topology), 0);
  ASSERT_EQ(hwloc_topology_export_xml(topology, path.c_str(), 0), 0);
  hwloc_topology_destroy(topology);

  setenv("RONDO_TOPO_XML", path.c_str(), 1);
  const DiscoverOptions options = discover_options_from_environment();
  unsetenv("RONDO_TOPO_XML");
  auto host = discover(options);
  ASSERT_TRUE(host.ok()) << host.error().text;
  EXPECT_EQ(host->cores_total, 32);
  EXPECT_EQ(host->packages.size(), 2u);
  EXPECT_EQ(host->l3_caches.size(), 4u);
  EXPECT_EQ(host->l2_caches.size(), 16u);
  EXPECT_EQ(to_text(host->l2_caches[1].cpus), "2-3");
  EXPECT_EQ(host->host_id, host_id());
}

TEST(HostTopology, GarbageInsteadOfXmlIsAnErrorThatNamesTheFile) {
  const TemporaryFolder folder;
  const std::string texts[] = {"", "not xml", "<topology><object type=\"Machine\">",
                               "<?xml version=\"1.0\"?><html><body/></html>",
                               std::string(5000, '\0')};
  for (const std::string& text : texts) {
    DiscoverOptions options;
    options.xml_path = folder.file("garbage.xml", text);
    const auto host = discover(options);
    ASSERT_FALSE(host.ok()) << text;
    EXPECT_EQ(host.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(host.error().text.find("garbage.xml"), std::string::npos) << host.error().text;
  }
  DiscoverOptions options;
  options.xml_path = folder.path() + "/absent.xml";
  const auto host = discover(options);
  ASSERT_FALSE(host.ok());
  EXPECT_NE(host.error().text.find("absent.xml"), std::string::npos);
  EXPECT_NE(host.error().text.find("No such file"), std::string::npos) << host.error().text;
}

TEST(HostTopology, ThisMachineHasAsManyCoresAsTheKernelReportsByBothReaders) {
  for (const bool allow_hwloc : {true, false}) {
    DiscoverOptions options;
    options.allow_hwloc = allow_hwloc;
    auto host = discover(options);
    ASSERT_TRUE(host.ok()) << host.error().text;
    EXPECT_EQ(host->cores_total, ::sysconf(_SC_NPROCESSORS_ONLN));
    EXPECT_EQ(host->page_bytes, ::sysconf(_SC_PAGESIZE));
    EXPECT_GE(host->cores_usable, 1);
    EXPECT_LE(host->cores_usable, host->cores_total);
    EXPECT_GT(host->memory_bytes, 0u);
    EXPECT_FALSE(host->kernel_version.empty());
    EXPECT_EQ(host->source, allow_hwloc ? "hwloc" : "sysfs");
  }
}

TEST(HostTopology, TheFallbackReadsNodesCachesAndThreadsFromFiles) {
  const TemporaryFolder root;
  const std::string system = "sys/devices/system/";
  root.file(system + "cpu/online", "0-3\n");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = system + "cpu/cpu" + std::to_string(cpu) + "/";
    const std::string pair = cpu < 2 ? "0-1\n" : "2-3\n";
    root.file(folder + "topology/core_cpus_list", pair);
    root.file(folder + "topology/core_siblings_list", pair);
    const char* levels[][3] = {{"1", "Data", "32K"},
                               {"1", "Instruction", "64K"},
                               {"2", "Unified", "1M"},
                               {"3", "Unified", "16M"}};
    for (int index = 0; index < 4; ++index) {
      const std::string cache = folder + "cache/index" + std::to_string(index) + "/";
      root.file(cache + "level", levels[index][0]);
      root.file(cache + "type", levels[index][1]);
      root.file(cache + "size", levels[index][2]);
      root.file(cache + "shared_cpu_list", pair);
      root.file(cache + "coherency_line_size", "128\n");
    }
  }
  root.file(system + "node/online", "0,2\n");
  root.file(system + "node/node0/cpulist", "0-1\n");
  root.file(system + "node/node0/meminfo", "Node 0 MemTotal:       1024 kB\n");
  root.file(system + "node/node2/cpulist", "2-3\n");
  root.file("proc/meminfo", "MemTotal:       4096 kB\nMemFree: 1 kB\n");
  root.file("proc/cpuinfo", "processor : 0\nvendor_id\t: Acme\nmodel name\t: Anvil 9\n");

  DiscoverOptions options;
  options.allow_hwloc = false;
  options.sysfs_root = root.path();
  auto host = discover(options);
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(to_text(host->cpus), "0-3");
  EXPECT_EQ(host->packages.size(), 2u);
  EXPECT_EQ(host->physical_cores.size(), 2u);
  EXPECT_EQ(host->l1d_bytes, 32u << 10);
  EXPECT_EQ(host->l2_bytes, 1u << 20);
  ASSERT_EQ(host->l3_caches.size(), 2u);
  EXPECT_EQ(host->l3_caches[1], (Cache{16u << 20, {2, 3}}));
  EXPECT_EQ(host->cache_line_bytes, 128u);
  ASSERT_EQ(host->numa_nodes.size(), 2u);
  EXPECT_EQ(host->numa_nodes[0], (NumaNode{0, 1024 * 1024, {0, 1}}));
  EXPECT_EQ(host->numa_nodes[1].id, 2);
  EXPECT_EQ(host->memory_bytes, 4096u * 1024);
  EXPECT_EQ(host->cpu_vendor, "Acme");
  EXPECT_EQ(host->cpu_model, "Anvil 9");
}

TEST(HostTopology, TheFallbackAnswersWhereNothingCanBeRead) {
  const TemporaryFolder root;
  DiscoverOptions options;
  options.allow_hwloc = false;
  options.sysfs_root = root.path();
  auto host = discover(options);
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host->cores_total, ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_EQ(host->numa_nodes.size(), 1u);
  EXPECT_EQ(host->physical_cores.size(), static_cast<std::size_t>(host->cores_total));
}

TEST(HostIdentity, RanksMeetIfBootNodeAndNetworkAreTheSame) {
  const HostFacts here{"", "boot-1", "node", 7};
  EXPECT_EQ(host_id_of(here), host_id_of(HostFacts{"", "boot-1", "node", 7}));
  EXPECT_NE(host_id_of(here), host_id_of(HostFacts{"", "boot-2", "node", 7}));
  EXPECT_NE(host_id_of(here), host_id_of(HostFacts{"", "boot-1", "clone", 7}));
  EXPECT_NE(host_id_of(here), host_id_of(HostFacts{"", "boot-1", "node", 8}));
  EXPECT_NE(host_id_of(HostFacts{"", "ab", "c", 7}), host_id_of(HostFacts{"", "a", "bc", 7}));
}

TEST(HostIdentity, TheVariableReplacesEveryFact) {
  EXPECT_EQ(host_id_of(HostFacts{"A", "boot-1", "node", 7}), host_id_of(HostFacts{"A", "", "", 0}));
  const std::uint64_t own = host_id();
  setenv("NCCL_HOSTID", "pretended", 1);
  EXPECT_EQ(host_id(), host_id_of(HostFacts{"pretended", "", "", 0}));
  unsetenv("NCCL_HOSTID");
  EXPECT_EQ(host_id(), own);
  EXPECT_NE(own, 0u);
}

}  // namespace
}  // namespace rondo::topology
