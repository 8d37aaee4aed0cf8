// SPDX-License-Identifier: Apache-2.0
// The text output and the JSON output of a topology.
#include "topology/describe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rondo::topology {
namespace {

HostTopology machine(const char* synthetic) {
  DiscoverOptions options;
  options.synthetic = synthetic;
  auto host = discover(options);
  EXPECT_TRUE(host.ok());
  return *host;
}

TEST(Describe, DrawsPackagesNodesCachesAndCoresInsideEachOther) {
  HostTopology host = machine("package:2 numa:1 l3:2 core:2 pu:2");
  for (NumaNode& node : host.numa_nodes) node.memory_bytes = 3ull << 29;
  for (Cache& cache : host.l3_caches) cache.bytes = 32 << 20;
  host.numa_nodes.push_back({2, 1ull << 30, {}});
  const std::string text = describe(host);
  EXPECT_NE(text.find("machine\n"
                      "├─ package 0\n"
                      "│  └─ NUMA node 0, 1.5 GiB\n"
                      "│     ├─ L3 32 MiB\n"
                      "│     │  └─ 2 cores of 2 threads, cpus 0-3\n"
                      "│     └─ L3 32 MiB\n"
                      "│        └─ 2 cores of 2 threads, cpus 4-7\n"
                      "└─ package 1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("NUMA node 2, 1 GiB, no cores\n"), std::string::npos) << text;
  EXPECT_NE(text.find("16 usable of 16"), std::string::npos) << text;
}

TEST(Describe, AnL3OverSeveralNodesStandsAboveThem) {
  HostTopology host = machine("package:1 numa:2 core:2 pu:1");
  host.l3_caches = {{16 << 20, host.cpus}};
  const std::string text = describe(host);
  const auto cache = text.find("L3 16 MiB\n");
  ASSERT_NE(cache, std::string::npos) << text;
  EXPECT_LT(cache, text.find("NUMA node 0")) << text;
}

TEST(Describe, JsonHoldsTheSameFactsAndSurvivesForeignBytes) {
  HostTopology host = machine("numa:2 l3:1 core:2 pu:1");
  host.cpu_model = "bad \xff bytes \"quoted\"";
  const std::vector<NetInterface> interfaces = {{"eth0", 25000, 1, true, false}};
  const auto json = nlohmann::json::parse(json_of(host, interfaces).text(2));
  EXPECT_EQ(json["cores_total"], 4);
  EXPECT_EQ(json["numa_nodes"][1]["cpus"], "2-3");
  EXPECT_EQ(json["l3_caches"].size(), 2u);
  EXPECT_EQ(json["network"][0]["megabits"], 25000);
  EXPECT_EQ(json["host_id"].get<std::string>().size(), 16u);
}

TEST(Describe, BytesArePrintedShortly) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(32 << 10), "32 KiB");
  EXPECT_EQ(bytes_text(3ull << 29), "1.5 GiB");
}

}  // namespace
}  // namespace rondo::topology
