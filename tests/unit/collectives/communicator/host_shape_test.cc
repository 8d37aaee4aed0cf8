// HostShape: the host of each rank, and whether the tree over ranks is one over hosts.
#include "collectives/communicator/host_shape.h"

#include <gtest/gtest.h>

#include "base/double_tree.h"

namespace rondo {
namespace {

HostShape shape(const std::vector<std::uint64_t>& hosts) { return shape_of_hosts(hosts); }

TEST(HostShape, ListsHostsByTheirFirstRanksAndRanksAscending) {
  const HostShape s = shape({7, 3, 9, 7, 3});
  EXPECT_EQ(s.hosts(), 3);
  EXPECT_EQ(s.ranks, (std::vector<int>{0, 3, 1, 4, 2}));
  EXPECT_EQ(s.first, (std::vector<int>{0, 2, 4, 5}));
  EXPECT_EQ(s.rails, 1);
  EXPECT_EQ(s.largest, 2);
  for (const auto& [rank, host] : {std::pair(0, 0), {3, 0}, {1, 1}, {4, 1}, {2, 2}})
    EXPECT_EQ(s.host_of(rank), host) << rank;
}

TEST(HostShape, IsAlignedWhereHostsAreSubtrees) {
  EXPECT_TRUE(shape({1, 1, 1}).aligned);
  EXPECT_TRUE(shape({1, 1, 2, 2}).aligned);
  EXPECT_TRUE(shape({1, 1, 2, 2, 3}).aligned);
  EXPECT_TRUE(shape({1, 2, 3}).aligned);
  EXPECT_FALSE(shape({1, 2, 1, 2}).aligned) << "dealt in turn";
  EXPECT_FALSE(shape({1, 1, 1, 2, 2, 2}).aligned) << "three a host";
  EXPECT_FALSE(shape({1, 2, 2}).aligned) << "the first is smaller";
  EXPECT_FALSE(shape({1, 1, 2, 3, 3}).aligned) << "the middle one is smaller";
}

// Number of edges between hosts, of a call's ring and of its double tree.
int ring_crossings(const std::vector<std::uint64_t>& hosts) {
  const HostShape s = shape(hosts);
  int crossings = 0;
  for (std::size_t at = 0; at < s.ranks.size(); ++at)
    crossings += s.host_of(s.ranks[at]) != s.host_of(s.ranks[(at + 1) % s.ranks.size()]);
  return crossings;
}

int tree_crossings(const std::vector<std::uint64_t>& hosts) {
  const int n = static_cast<int>(hosts.size());
  int crossings = 0;
  for (int rank = 0; rank < n; ++rank)
    for (const int tree : {0, 1})
      if (const int up = double_tree(rank, n, tree).parent; up != kNoRank)
        crossings += hosts[static_cast<std::size_t>(rank)] != hosts[static_cast<std::size_t>(up)];
  return crossings;
}

// Proves the numbers of docs/internals/networks.md.
TEST(HostShape, RingsLeaveEachHostOnceAndTreesMoreOften) {
  for (const int count : {2, 4, 8})
    for (const int ranks : {2, 3, 8}) {
      std::vector<std::uint64_t> blocks, dealt;
      for (int r = 0; r < count * ranks; ++r) {
        blocks.push_back(static_cast<std::uint64_t>(r / ranks));
        dealt.push_back(static_cast<std::uint64_t>(r % count));
      }
      EXPECT_EQ(ring_crossings(blocks), count);
      EXPECT_EQ(ring_crossings(dealt), count);
      EXPECT_GT(tree_crossings(blocks), 2 * (count - 1)) << "more than one edge a host and tree";
      EXPECT_LE(tree_crossings(blocks), 6 * count);
      EXPECT_GE(2 * tree_crossings(dealt), 2 * (count * ranks - 1)) << "half of the edges";
    }
}

}  // namespace
}  // namespace rondo
