// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/reach_team.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace rondo {
namespace {

// Ranks with equal letters reach each other.
int team_of(const std::string& places) {
  return reach_team(static_cast<int>(places.size()), [&](int a, int b) {
    return places[static_cast<std::size_t>(a)] == places[static_cast<std::size_t>(b)];
  });
}

TEST(ReachTeam, IsTheLargestThatFitsEveryRunOfNeighbours) {
  EXPECT_EQ(team_of("a"), 1);
  EXPECT_EQ(team_of("aaaaaaaa"), 8);
  EXPECT_EQ(team_of("aaaabbbb"), 4);
  EXPECT_EQ(team_of("aaaabb"), 2);
  EXPECT_EQ(team_of("aaab"), 1);
  EXPECT_EQ(team_of("abababab"), 1);
  EXPECT_EQ(team_of("aabbaabb"), 2);
  EXPECT_EQ(team_of("aaaaaabbbbbbbbb"), 3);
}

TEST(ReachTeam, HasNoPairThatDoesNotReach) {
  // A ring of eight in which each reaches its two neighbours: chains do not make a team.
  EXPECT_EQ(reach_team(8, [](int a, int b) { return std::abs(a - b) == 1; }), 2);
  EXPECT_EQ(reach_team(5, [](int, int) { return false; }), 1);
}

}  // namespace
}  // namespace rondo
