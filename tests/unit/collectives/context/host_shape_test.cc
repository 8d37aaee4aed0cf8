// SPDX-License-Identifier: Apache-2.0
// HostShape: the host of each rank, and whether the tree over ranks is one over hosts.
#include "collectives/context/host_shape.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace rondo
