// SPDX-License-Identifier: Apache-2.0
// NCCL_TESTS_SPLIT: the group of each rank.
#include "bench/split.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace rondo::bench {
namespace {

std::vector<int> groups(const std::string& text, int ranks) {
  const auto split = Split::parse(text);
  EXPECT_TRUE(split.ok()) << split.error().text;
  std::vector<int> all;
  for (int r = 0; split.ok() && r < ranks; ++r) all.push_back(split->group_of(r));
  return all;
}

TEST(BenchSplit, UnderstandsEveryOperationAndBase) {
  EXPECT_EQ(groups("", 3), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(groups("AND 1", 4), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(groups("&0x2", 4), (std::vector<int>{0, 0, 2, 2}));
  EXPECT_EQ(groups("or 0b1", 4), (std::vector<int>{1, 1, 3, 3}));
  EXPECT_EQ(groups("MOD 3", 4), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(groups("/ 2", 5), (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(BenchSplit, KeepsTheOrderOfRanksInAGroup) {
  const auto split = Split::parse("MOD 2");
  ASSERT_TRUE(split.ok());
  const Split::Member place = split->place_of(3, 5);
  EXPECT_EQ(place.group, 1);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.ranks, 2);
  EXPECT_EQ(split->place_of(4, 5).ranks, 3);
  EXPECT_EQ(split->sizes(5), (std::set<int>{2, 3}));
  EXPECT_EQ(split->sizes(4), (std::set<int>{2}));
}

TEST(BenchSplit, RefusesTheRestByName) {
  for (const char* text : {"2", "MOD", "MOD 0", "DIV 0", "MOD -1", "XOR 2", "AND 0x", "MOD 2x"}) {
    const auto split = Split::parse(text);
    ASSERT_FALSE(split.ok()) << text;
    EXPECT_EQ(split.code(), StatusCode::kInvalidUsage);
    EXPECT_NE(split.error().text.find(std::string("NCCL_TESTS_SPLIT='") + text + "'"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace rondo::bench
