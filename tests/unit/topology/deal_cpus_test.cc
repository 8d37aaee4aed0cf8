// SPDX-License-Identifier: Apache-2.0
// Which CPUs the ranks of described machines get.
#include "topology/deal_cpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

namespace rondo::topology {
namespace {

using Dealt = std::vector<CpuList>;

// Two NUMA nodes of three cores with two hardware threads each.
HostTopology two_nodes() {
  HostTopology host;
  host.numa_nodes = {{0, 0, {0, 1, 2, 6, 7, 8}}, {1, 0, {3, 4, 5, 9, 10, 11}}};
  for (int core = 0; core < 6; ++core) host.physical_cores.push_back({core, core + 6});
  host.cpus = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  return host;
}

HostTopology described(const std::string& synthetic) {
  DiscoverOptions options;
  options.synthetic = synthetic;
  const auto host = discover(options);
  EXPECT_TRUE(host.ok()) << synthetic;
  return host.ok() ? *host : HostTopology{};
}

Dealt shares_of(const HostTopology& host, int ranks) {
  return deal_cpus(host, host.cpus, Binding::kShare, ranks);
}

TEST(DealCpus, GivesRanksNeighbouringCoresWithAllTheirThreads) {
  const HostTopology host = two_nodes();
  EXPECT_EQ(shares_of(host, 2), (Dealt{{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
  EXPECT_EQ(shares_of(host, 4), (Dealt{{0, 6}, {1, 2, 7, 8}, {3, 9}, {4, 5, 10, 11}}));
  EXPECT_EQ(shares_of(host, 1), (Dealt{host.cpus}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kCores, 2), (Dealt{{0, 6}, {3, 9}}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kNumaNodes, 3),
            (Dealt{{0, 1, 2, 6, 7, 8}, {0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kNumaNodes, 1), (Dealt{{0, 1, 2, 6, 7, 8}}));
  EXPECT_EQ(deal_cpus(host, host.cpus, Binding::kNone, 2), Dealt{});
}

TEST(DealCpus, DealsOnlyWhatThisProcessMayUse) {
  const HostTopology host = two_nodes();
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kShare, 2), (Dealt{{2}, {3, 9}}));
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kCores, 2), (Dealt{{2}, {3, 9}}));
  EXPECT_EQ(deal_cpus(host, {4}, Binding::kNumaNodes, 2), (Dealt{{4}, {4}}));
  EXPECT_EQ(deal_cpus(HostTopology{}, {4, 5}, Binding::kShare, 1), (Dealt{{4, 5}}));
}

TEST(DealCpus, DealsHardwareThreadsWhereThereAreMoreRanksThanCores) {
  const HostTopology host = two_nodes();
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kShare, 3), (Dealt{{2}, {3}, {9}}));
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kCores, 4), (Dealt{{2}, {2}, {3, 9}, {3, 9}}));
  EXPECT_EQ(deal_cpus(host, {2, 3, 9}, Binding::kShare, 4), Dealt{}) << "the kernel moves them";
  EXPECT_EQ(deal_cpus(host, {4}, Binding::kShare, 2), Dealt{});
}

TEST(DealCpus, SharesAreDisjointAndDifferByNoMoreThanOneCore) {
  for (const char* machine : {"numa:2 l3:1 core:3 pu:1", "numa:1 l3:4 core:8 pu:1",
                              "numa:2 l3:3 core:5 pu:1", "numa:3 l3:1 core:7 pu:1", "pu:5"}) {
    const HostTopology host = described(machine);
    for (int ranks = 1; ranks <= host.cores_total; ++ranks) {
      std::multiset<int> used;
      std::size_t smallest = host.cpus.size(), largest = 0;
      for (const CpuList& cpus : shares_of(host, ranks)) {
        used.insert(cpus.begin(), cpus.end());
        smallest = std::min(smallest, cpus.size());
        largest = std::max(largest, cpus.size());
      }
      EXPECT_EQ(CpuList(used.begin(), used.end()), host.cpus) << machine << ", " << ranks;
      EXPECT_GE(smallest, 1u);
      EXPECT_LE(largest, smallest + 1) << machine << ", " << ranks;
    }
  }
}

int straddling(const Dealt& dealt, const std::vector<CpuList>& groups) {
  return static_cast<int>(std::ranges::count_if(dealt, [&](const CpuList& cpus) {
    return std::ranges::none_of(groups,
                                [&](const CpuList& group) { return contains_all(group, cpus); });
  }));
}

TEST(DealCpus, SharesDoNotCrossNodesAndCachesIfTheNumbersAllowIt) {
  const HostTopology even = described("numa:2 l3:2 core:4 pu:1");
  std::vector<CpuList> caches;
  for (const Cache& cache : even.l3_caches) caches.push_back(cache.cpus);
  for (const int ranks : {4, 8, 12, 16}) EXPECT_EQ(straddling(shares_of(even, ranks), caches), 0);
  EXPECT_EQ(shares_of(even, 12)[6].front(), 8) << "six ranks on each node";
  EXPECT_EQ(shares_of(even, 2), (Dealt{even.numa_nodes[0].cpus, even.numa_nodes[1].cpus}));
  // 6 ranks on 16 cores: 3 each on two nodes; caches of 4 cannot hold 2.67 without a rest.
  std::vector<CpuList> nodes = {even.numa_nodes[0].cpus, even.numa_nodes[1].cpus};
  EXPECT_EQ(straddling(shares_of(even, 6), nodes), 0);
}

TEST(DealCpus, SharesAreCutWhereAMaskLeavesUnevenNodes) {
  const HostTopology host = described("numa:2 l3:1 core:8 pu:1");
  const CpuList allowed = {0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14};  // 5 and 7 cores
  EXPECT_EQ(deal_cpus(host, allowed, Binding::kShare, 5),
            (Dealt{{0, 1}, {2, 3, 4}, {8, 9}, {10, 11}, {12, 13, 14}}));
}

TEST(DealCpus, NodesWhoseNumbersAlternateStayTogether) {
  HostTopology host;
  host.cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  host.numa_nodes = {{0, 0, {0, 2, 4, 6}}, {1, 0, {1, 3, 5, 7}}};
  for (const int cpu : host.cpus) host.physical_cores.push_back({cpu});
  EXPECT_EQ(shares_of(host, 2), (Dealt{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(shares_of(host, 4), (Dealt{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
}

TEST(DealCpus, SharesAreBoundOnlyIfEachRankHasTheTimeOfACore) {
  const double no_quota = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(may_bind_shares({4, no_quota, 4}, 4));
  EXPECT_FALSE(may_bind_shares({4, no_quota, 4}, 5));
  EXPECT_FALSE(may_bind_shares({4, 0.5, 1}, 2)) << "a container with half a core";
  EXPECT_FALSE(may_bind_shares({64, 4, 4}, 4)) << "each rank would count 16 cores";
  EXPECT_TRUE(may_bind_shares({4, 4, 4}, 2));
}

}  // namespace
}  // namespace rondo::topology
