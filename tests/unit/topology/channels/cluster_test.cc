// SPDX-License-Identifier: Apache-2.0
// Rings that join the channels of several hosts.
#include "topology/channels/cluster.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/support/fixtures.h"

namespace rondo::topology {
namespace {

// Equal hosts, with consecutive ranks on each.
std::vector<ClusterHost> hosts_of(const Graph& graph, int count) {
  std::vector<ClusterHost> hosts;
  int rank = 0;
  for (int h = 0; h < count; ++h) {
    ClusterHost host{&graph,
                     {graph.gpus().begin(), graph.gpus().end()},
                     {graph.nics().begin(), graph.nics().end()},
                     {}};
    for (std::size_t i = 0; i < host.gpus.size(); ++i) host.ranks.push_back(rank++);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

class Clusters : public testing::TestWithParam<int> {};

TEST_P(Clusters, RingsVisitEachRankOnceHostAfterHost) {
  const Graph graph = rondo::test::fixture("dgx-a100");
  const auto hosts = hosts_of(graph, GetParam());
  const auto plan = find_channels(hosts, ClusterLimits{});
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  ASSERT_FALSE(plan->rings.empty());
  for (const ClusterRing& ring : plan->rings) {
    std::vector<int> sorted = ring.ranks;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> all(hosts.size() * 8);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    for (std::size_t i = 0; i < ring.ranks.size(); ++i) {
      EXPECT_EQ(ring.ranks[i] / 8, static_cast<int>(i / 8)) << "position " << i;
    }
    ASSERT_EQ(ring.crossings.size(), hosts.size() > 1 ? hosts.size() : 0);
    for (std::size_t h = 0; h < ring.crossings.size(); ++h) {
      EXPECT_EQ(ring.crossings[h].from_rank, ring.ranks[h * 8 + 7]);
      EXPECT_EQ(ring.crossings[h].to_rank, ring.ranks[(h + 1) % hosts.size() * 8]);
    }
  }
}

// All hosts are equal here, so its node identifies a port.
TEST_P(Clusters, KeepToTheirRailWherePortsAreTheSame) {
  const Graph graph = rondo::test::fixture("dgx-a100");
  if (GetParam() == 1) return;
  const auto plan = find_channels(hosts_of(graph, GetParam()), {PortUse::kSame});
  ASSERT_TRUE(plan.ok());
  std::set<int> rails;
  for (const ClusterRing& ring : plan->rings) {
    for (const Crossing& crossing : ring.crossings) {
      EXPECT_EQ(crossing.out, crossing.in);
      EXPECT_EQ(crossing.out, ring.crossings.front().out);
    }
    rails.insert(ring.crossings.front().out);
  }
  EXPECT_EQ(rails.size(), 8u);
}

TEST_P(Clusters, TurnEveryOtherHostSoThatPortsMeetThemselves) {
  const Graph graph = rondo::test::fixture("pcie-8-two-sockets");
  if (GetParam() == 1) return;
  const auto plan = find_channels(hosts_of(graph, GetParam()), {PortUse::kPairs});
  ASSERT_TRUE(plan.ok());
  EXPECT_NEAR(plan->gbs(), 31.508, 0.01);
  const bool odd = GetParam() % 2 == 1;
  for (const ClusterRing& ring : plan->rings) {
    for (std::size_t h = 0; h + (odd ? 1 : 0) < ring.crossings.size(); ++h) {
      EXPECT_EQ(ring.crossings[h].out, ring.crossings[h].in) << "host " << h;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, Clusters, testing::Values(1, 2, 3, 8));

std::vector<ClusterHost> two_kinds(const Graph& one, const Graph& other) {
  std::vector<ClusterHost> hosts = hosts_of(one, 2);
  hosts[1].graph = &other;
  hosts[1].gpus.assign(other.gpus().begin(), other.gpus().end());
  hosts[1].nics.assign(other.nics().begin(), other.nics().end());
  return hosts;
}

TEST(Cluster, IsAsSlowAsItsSlowestHost) {
  const Graph fast = rondo::test::fixture("dgx-h100"), slow = rondo::test::fixture("dgx-1v");
  const auto plan = find_channels(two_kinds(fast, slow), ClusterLimits{});
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_DOUBLE_EQ(plan->gbs(), 50);
  EXPECT_DOUBLE_EQ(plan->bound_gbs, 50);
  EXPECT_EQ(plan->slowest_host, 1);
}

// Four channels of 12.5 GB/s, and two of 15.75.
TEST(Cluster, HasTheMinimumOfChannelsOfAllHostsAtTheSpeedOfTheSlowest) {
  const Graph many = rondo::test::fixture("dgx-1v");
  const Graph few = rondo::test::fixture("pcie-8-two-sockets");
  const auto plan = find_channels(two_kinds(many, few), ClusterLimits{});
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->rings.size(), 2u);
  EXPECT_DOUBLE_EQ(plan->gbs(), 25);
  EXPECT_EQ(plan->slowest_host, 0);
  EXPECT_NEAR(plan->bound_gbs, 31.508, 0.01);
}

TEST(Cluster, OfManyEqualHostsIsSearchedOnce) {
  const Graph graph = rondo::test::fixture("dgx-h100");
  const auto hosts = hosts_of(graph, 2048);
  const auto plan = find_channels(hosts, ClusterLimits{});
  ASSERT_TRUE(plan.ok());
  EXPECT_DOUBLE_EQ(plan->gbs(), 400);
  EXPECT_EQ(plan->searches, 1);
}

TEST(Cluster, RefusesAHostThatNobodyReaches) {
  const Graph graph = rondo::test::fixture("dgx-h100");
  std::vector<ClusterHost> hosts = hosts_of(graph, 2);
  hosts[1].nics.clear();
  const auto plan = find_channels(hosts, ClusterLimits{});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().text.find("host 1 has no network port"), std::string::npos);
  hosts[1].ranks.pop_back();
  EXPECT_EQ(find_channels(hosts, ClusterLimits{}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(find_channels({}, ClusterLimits{}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rondo::topology
