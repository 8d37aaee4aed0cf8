// Hosts, rings and trees of many placements.
#include "topology/rank_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace rondo::topology {
namespace {

// Ranks scattered over some hosts with two packages of two NUMA nodes each.
std::vector<RankPlace> scattered(int ranks, unsigned seed) {
  std::mt19937 random(seed);
  const unsigned hosts = 1 + random() % 9;
  std::vector<RankPlace> places(static_cast<std::size_t>(ranks));
  for (RankPlace& place : places) {
    place.host_id = 1000 - random() % hosts;
    place.process_id = random() % 50;
    const unsigned spot = random() % 5;
    if (spot == 4) continue;  // unbound
    place.numa = static_cast<int>(spot);
    place.package = place.numa / 2;
    place.cpu = static_cast<int>(spot * 8 + random() % 8);
    place.cpu_set_id = static_cast<std::uint64_t>(place.cpu) + 1;
  }
  return places;
}

// How often neighbours of the ring differ in `part`, going once around.
template <class PartOf>
int changes(const std::vector<int>& ring, PartOf part_of) {
  int count = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    count += part_of(ring[i]) != part_of(ring[(i + 1) % ring.size()]);
  }
  return count;
}

TEST(RankLayout, RingsArePermutationsThatVisitEachHostOnceAndNodesInOneStretch) {
  for (int n = 1; n <= 300; ++n) {
    SCOPED_TRACE(testing::Message() << "ranks " << n << " (also the seed)");
    const auto places = scattered(n, static_cast<unsigned>(n));
    const RankLayout layout = lay_out(places);
    std::vector<int> sorted = layout.ring;
    std::sort(sorted.begin(), sorted.end());
    for (int rank = 0; rank < n; ++rank) {
      ASSERT_EQ(sorted[rank], rank);
      ASSERT_EQ(layout.ring[layout.ring_position[rank]], rank);
      ASSERT_EQ(layout.ring_previous(layout.ring_next(rank)), rank);
    }
    const int hosts = static_cast<int>(layout.hosts.size());
    EXPECT_EQ(changes(layout.ring, [&](int rank) { return places[rank].host_id; }),
              hosts == 1 ? 0 : hosts);
    for (const HostRanks& host : layout.hosts) {
      std::set<int> nodes;
      for (const int rank : host.ranks) nodes.insert(places[rank].numa);
      const int count = static_cast<int>(nodes.size());
      EXPECT_EQ(changes(host.ring_order, [&](int rank) { return places[rank].numa; }),
                count == 1 ? 0 : count);
    }
  }
}

TEST(RankLayout, EveryRankFindsItselfAmongTheRanksOfItsHost) {
  for (int n = 1; n <= 100; ++n) {
    const auto places = scattered(n, 7u * static_cast<unsigned>(n));
    const RankLayout layout = lay_out(places);
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(layout.host(rank).host_id, places[rank].host_id);
      EXPECT_EQ(layout.host(rank).ranks[layout.local_rank[rank]], rank);
      EXPECT_LE(layout.leader(rank), rank);
      EXPECT_EQ(layout.local_rank[layout.leader(rank)], 0);
    }
    for (std::size_t host = 1; host < layout.hosts.size(); ++host) {
      EXPECT_LT(layout.hosts[host - 1].leader(), layout.hosts[host].leader());
    }
  }
}

TEST(RankLayout, TreesSpanAllRanksWhereverTheyAre) {
  for (int n = 1; n <= 300; n += 7) {
    const RankLayout layout = lay_out(scattered(n, static_cast<unsigned>(n)));
    for (int tree = 0; tree < 2; ++tree) {
      int free_roots = 0;
      for (int rank = 0; rank < n; ++rank) {
        const TreeLinks free = layout.tree(rank, tree);
        free_roots += free.parent == kNoRank;
        const TreeLinks rooted = layout.rooted_tree(rank, n / 2, tree);
        EXPECT_EQ(rooted.parent == kNoRank, rank == n / 2);
        for (const int child : free.child) {
          if (child == kNoRank) continue;
          EXPECT_EQ(layout.tree(child, tree).parent, rank);
        }
        for (const int child : rooted.child) {
          if (child == kNoRank) continue;
          EXPECT_EQ(layout.rooted_tree(child, n / 2, tree).parent, rank);
        }
      }
      EXPECT_EQ(free_roots, 1);
    }
  }
}

TEST(RankLayout, HostsComeInTheOrderOfTheirLowestRank) {
  std::vector<RankPlace> places(5);
  const std::uint64_t hosts[] = {9, 3, 9, 3, 5};
  for (int rank = 0; rank < 5; ++rank) places[rank].host_id = hosts[rank];
  const RankLayout layout = lay_out(places);
  ASSERT_EQ(layout.hosts.size(), 3u);
  EXPECT_EQ(layout.hosts[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(layout.hosts[1].ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(layout.ring, (std::vector<int>{0, 2, 1, 3, 4}));
  EXPECT_FALSE(layout.one_process);
}

TEST(RankLayout, NobodyIsALayoutToo) {
  const RankLayout layout = lay_out({});
  EXPECT_EQ(layout.size(), 0);
  EXPECT_TRUE(layout.hosts.empty());
}

TEST(RankLayout, AHostIsCrowdedOnlyIfRanksMustShareCores) {
  std::vector<RankPlace> places(4);
  for (int rank = 0; rank < 4; ++rank) {
    places[rank].cpu_set_id = static_cast<std::uint64_t>(rank);  // each bound to a core of its own
    places[rank].cores_usable = 1;
  }
  EXPECT_FALSE(lay_out(places).hosts[0].crowded);
  for (RankPlace& place : places) place.cpu_set_id = 1;
  EXPECT_TRUE(lay_out(places).hosts[0].crowded);
  for (RankPlace& place : places) place.cores_usable = 4;
  EXPECT_FALSE(lay_out(places).hosts[0].crowded);
  EXPECT_TRUE(lay_out(places).one_process);
}

TEST(RankPlace, SaysOnWhatARankIsBound) {
  DiscoverOptions options;
  options.synthetic = "package:2 numa:2 l3:1 l2:2 core:1 pu:2";
  auto host = discover(options);
  ASSERT_TRUE(host.ok());
  const RankPlace bound = place_on(*host, {6}, 42);
  EXPECT_EQ(bound.package, 0);
  EXPECT_EQ(bound.numa, 1);
  EXPECT_EQ(bound.l3, 1);
  EXPECT_EQ(bound.l2, 3);
  EXPECT_EQ(bound.cpu, 6);
  EXPECT_EQ(bound.cores_usable, 1);
  EXPECT_EQ(bound.process_id, 42u);
  const RankPlace wide = place_on(*host, {8, 9, 10, 11, 12}, 42);
  EXPECT_EQ(wide.package, 1);
  EXPECT_EQ(wide.numa, -1);
  EXPECT_EQ(wide.cpu, -1);
  EXPECT_EQ(wide.cores_usable, 5);
  EXPECT_NE(wide.cpu_set_id, bound.cpu_set_id);
  EXPECT_EQ(place_on(*host, {}, 1).package, -1);
}

}  // namespace
}  // namespace rondo::topology
