// SPDX-License-Identifier: Apache-2.0
// The levels of P2P.
#include "transport/cuda/peer_access.h"

#include <gtest/gtest.h>

namespace rondo::gpu {
namespace {

TEST(PeerAccess, LevelsAreNamesOrNumbers) {
  using topology::PathClass;
  for (const char* none : {"loc", "LOC", "0"}) EXPECT_EQ(*parse_peer_level(none), PathClass::kLoc);
  EXPECT_EQ(*parse_peer_level("NVL"), PathClass::kNvl);
  EXPECT_EQ(*parse_peer_level("PIX"), PathClass::kPix);
  EXPECT_EQ(*parse_peer_level("1"), PathClass::kPix);
  EXPECT_EQ(*parse_peer_level("2"), PathClass::kPxb);
  EXPECT_EQ(*parse_peer_level("3"), PathClass::kPhb);
  for (const char* all : {"", "SYS", "4", "5", "99"})
    EXPECT_EQ(*parse_peer_level(all), PathClass::kSys) << all;
  for (const char* wrong : {"near", "NET", "-1", "PIX "}) {
    const auto refused = parse_peer_level(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_NE(refused.error().text.find(wrong), std::string::npos);
  }
}

}  // namespace
}  // namespace rondo::gpu
