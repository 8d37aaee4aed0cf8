// SPDX-License-Identifier: Apache-2.0
// Rings and trees in the order of HostShape: the number of connections between hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "collectives/context/host_shape.h"
#include "kernels/algorithms/run_links.h"
#include "tests/checker/channels.h"

namespace rondo {
namespace {

HostShape dealt(int ranks, int hosts) {
  std::vector<std::uint64_t> host_of_rank;
  for (int r = 0; r < ranks; ++r) host_of_rank.push_back(static_cast<std::uint64_t>(r % hosts));
  return shape_of_hosts(host_of_rank);
}
// Hosts of the same sizes, with consecutive ranks.
HostShape in_blocks(const HostShape& of) {
  std::vector<std::uint64_t> host_of_rank;
  for (const int rank : of.ranks)
    host_of_rank.push_back(static_cast<std::uint64_t>(of.host_of(rank)));
  return shape_of_hosts(host_of_rank);
}
int position_of(const HostShape& shape, int rank) {
  return static_cast<int>(std::find(shape.ranks.begin(), shape.ranks.end(), rank) -
                          shape.ranks.begin());
}

// Connections between hosts in a call; each direction and channel counts separately.
std::size_t crossing(const HostShape& shape, Algorithm algorithm, Collective collective, int root) {
  std::set<std::tuple<int, int, int>> opened;
  const int n = static_cast<int>(shape.ranks.size());
  const std::uint64_t count = 4 * static_cast<std::uint64_t>(n);
  for (int rank = 0; rank < n; ++rank) {
    check::LinksProgram program(rank, n);
    const RingView view{position_of(shape, rank), n, {shape.ranks.data()}};
    EXPECT_TRUE(
        run_links<Where::kHost>(program, view, root, {count, count, 1}, algorithm, collective));
    for (const auto& list : program.lists())
      for (const check::LinksOp& op : list)
        for (const int to : {op.to.first, op.to.second})
          if (to >= 0 && shape.host_of(to) != shape.host_of(rank))
            opened.insert({rank, to, op.channel});
  }
  return opened.size();
}

TEST(HostOrder, DealtRanksCrossHostsAsRarelyAsThoseInBlocks) {
  for (const int hosts : {2, 3, 4})
    for (int n = hosts + 1; n <= 16; ++n) {
      const HostShape shape = dealt(n, hosts), blocks = in_blocks(shape);
      for (const AlgorithmRow& row : kAlgorithms) {
        const bool placed = row.algorithm == Algorithm::kRing || row.algorithm == Algorithm::kTree;
        if (!placed || row.verbs != Verbs::kPrimitives || !row.runs(Where::kHost)) continue;
        for (int root = 0; root < (is_rooted(row.collective) ? n : 1); ++root)
          EXPECT_EQ(crossing(shape, row.algorithm, row.collective, root),
                    crossing(blocks, row.algorithm, row.collective, position_of(shape, root)))
              << n << " ranks on " << hosts << " hosts, " << name(row.algorithm) << " "
              << name(row.collective) << ", root " << root;
      }
    }
}

TEST(HostOrder, ARingEntersEachHostOnce) {
  for (const int hosts : {2, 3, 4})
    for (int n = hosts + 1; n <= 16; ++n)
      EXPECT_EQ(crossing(dealt(n, hosts), Algorithm::kRing, Collective::kAllReduce, -1),
                static_cast<std::size_t>(hosts));
}

// For docs/internals/networks.md. Few edges of the two trees cross hosts, in both directions. In
// the order of rank numbers nearly all edges would.
TEST(HostOrder, TreesOfTwoHostsCrossAtFewEdges) {
  const auto of = [](int n) {
    return crossing(dealt(n, 2), Algorithm::kTree, Collective::kAllReduce, -1);
  };
  EXPECT_EQ(of(4), 8u);
  EXPECT_EQ(of(6), 10u);
  EXPECT_EQ(of(8), 8u);
}

// Its sums are those of the tree over rank numbers, so HostShape does not choose the partners.
TEST(HostOrder, RecursiveKeepsTheRanksNumbers) {
  const HostShape shape = dealt(8, 2);
  const HostShape blocks = in_blocks(shape);
  const auto of = [](const HostShape& hosts) {
    return crossing(hosts, Algorithm::kRecursive, Collective::kAllReduce, -1);
  };
  EXPECT_EQ(of(shape), 8u) << "partners at distance 1";
  EXPECT_EQ(of(blocks), 8u) << "at distance 4";
}

}  // namespace
}  // namespace rondo
