// SPDX-License-Identifier: Apache-2.0
// Selects the graphs to exchange: for hosts with equal graphs, with different ones and with too
// many.
#include "collectives/context/rank_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo {
namespace {

using testing::ElementsAre;

std::vector<PlacementRecord> records(const std::vector<std::uint64_t>& digests,
                                     std::uint32_t bytes) {
  std::vector<PlacementRecord> made;
  for (const std::uint64_t digest : digests) made.push_back({0, digest, bytes, {}, {}});
  return made;
}

TEST(RankPlacement, EqualHostsSendOneGraph) {
  const std::vector<int> leaders = {0, 2, 3, 5};
  EXPECT_THAT(graph_senders(leaders, records({7, 0, 9, 7, 0, 9}, 3000)), ElementsAre(0, 2, 0, 2));
}

TEST(RankPlacement, GraphsThatAreTooMuchAreNotSent) {
  const std::vector<int> leaders = {0, 1, 2, 3, 4};
  EXPECT_THAT(graph_senders(leaders, records({1, 2, 3, 1, 3}, 7u << 20)),
              ElementsAre(0, 1, -1, 0, -1));
}

TEST(RankPlacement, RecordsThatNoRankSendsAreRefused) {
  const PlacementRecord record{3, 77, 1000, "mlx5_0,mlx5_2:1", "Tuner v5"};
  Bytes blob = record.encode();
  const auto read = PlacementRecord::decode(blob, 4);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->numa, 3);
  EXPECT_EQ(read->digest, 77u);
  EXPECT_EQ(read->graph_bytes, 1000u);
  EXPECT_EQ(read->hca, "mlx5_0,mlx5_2:1");
  EXPECT_EQ(read->tuner, "Tuner v5");
  blob.pop_back();
  const auto cut = PlacementRecord::decode(blob, 4);
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().text, testing::HasSubstr("rank 4"));
  EXPECT_FALSE(PlacementRecord::decode(PlacementRecord{-2, 0, 0, {}, {}}.encode(), 0).ok());
}

TEST(RankPlacement, TunerPluginsThatDifferAreNamed) {
  const auto why_not = [](const std::vector<std::string>& tuners) {
    std::vector<PlacementRecord> placements;
    for (const std::string& tuner : tuners) placements.push_back({0, 1, 1, {}, tuner});
    return difference_of_tuners(placements);
  };
  EXPECT_EQ(why_not({"", "", ""}), "");
  EXPECT_EQ(why_not({"X v5", "X v5"}), "");
  EXPECT_EQ(why_not({"X v5", "X v5", "X v4"}),
            "the tuner plugin of rank 2 is 'X v4', that of rank 0 'X v5': give all ranks the same "
            "one, or set NCCL_TUNER_PLUGIN=none on all");
  EXPECT_THAT(why_not({"X v5", ""}),
              testing::HasSubstr("of rank 1 is none, that of rank 0 'X v5'"));
}

}  // namespace
}  // namespace rondo
