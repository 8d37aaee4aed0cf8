// SPDX-License-Identifier: Apache-2.0
// Which CPUs share a core, a cache and a node, by the files of simulated machines and of this one.
#include "topology/cpu_places.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "topology/host_topology.h"

namespace rondo::topology {
namespace {

const std::string kSystem = "sys/devices/system/";
std::string cpu_file(int cpu, const std::string& name) {
  return kSystem + "cpu/cpu" + std::to_string(cpu) + "/" + name;
}

TEST(CpuPlaces, NameCoresCachesAndNodesByTheirLowestCpu) {
  const test::TemporaryFolder root;
  for (int cpu = 0; cpu < 8; ++cpu) {
    // The older name where the newer is absent.
    root.file(cpu_file(cpu, cpu < 4 ? "topology/core_cpus_list" : "topology/thread_siblings_list"),
              std::to_string(cpu / 2 * 2) + "-" + std::to_string(cpu / 2 * 2 + 1) + "\n");
    root.file(cpu_file(cpu, "cache/index0/level"), "1\n");
    root.file(cpu_file(cpu, "cache/index0/shared_cpu_list"), std::to_string(cpu) + "\n");
    root.file(cpu_file(cpu, "cache/index1/level"), "3\n");
    root.file(cpu_file(cpu, "cache/index1/shared_cpu_list"), cpu < 4 ? "0-3\n" : "4-7\n");
    root.file(cpu_file(cpu, "cache/index2/level"), "2\n");
    root.file(cpu_file(cpu, "cache/index2/shared_cpu_list"), std::to_string(cpu) + "\n");
  }
  root.file(kSystem + "node/online", "0,3\n");
  root.file(kSystem + "node/node0/cpulist", "0-5\n");
  root.file(kSystem + "node/node3/cpulist", "6-7\n");
  const std::vector<CpuPlace> places = cpu_places({0, 1, 2, 3, 4, 5, 6, 7}, root.path());
  const std::vector<CpuPlace> expected = {{0, 0, 0}, {0, 0, 0}, {2, 0, 0}, {2, 0, 0},
                                          {4, 4, 0}, {4, 4, 0}, {6, 4, 6}, {6, 4, 6}};
  EXPECT_EQ(places, expected);
}

TEST(CpuPlaces, AreUnknownWhereNothingCanBeRead) {
  const test::TemporaryFolder root;
  const std::vector<CpuPlace> unknown(3);
  EXPECT_EQ(cpu_places({0, 2}, root.path()), unknown);
  EXPECT_TRUE(cpu_places({}, root.path()).empty());
  root.file(cpu_file(0, "topology/core_cpus_list"), "zero\n");
  EXPECT_EQ(cpu_places({0, 2}, root.path()), unknown);
}

TEST(CpuPlaces, OfThisMachineAreThoseThatHwlocFinds) {
  const auto host = discover({});
  ASSERT_TRUE(host.ok()) << host.error().text;
  const std::vector<CpuPlace> places = cpu_places(host->cpus);
  for (const CpuList& core : host->physical_cores)
    for (const int cpu : core) {
      const std::uint16_t found = places.at(static_cast<std::size_t>(cpu)).core;
      EXPECT_TRUE(found == core.front() || found == CpuPlace::kUnknown) << "CPU " << cpu;
    }
}

}  // namespace
}  // namespace rondo::topology
