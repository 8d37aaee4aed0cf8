// SPDX-License-Identifier: Apache-2.0
// When a rank spins for its peers, and when it gives the core to another rank; observed through
// atomics that count.
#include "kernels/host/shared_core.h"

#include <gtest/gtest.h>

#include "base/atomics.h"

namespace rondo::host {
namespace {

struct PlacedAtomics : HostAtomics {
  static inline std::uint32_t now_on = 1;
  static inline int loads = 0;
  static std::uint32_t core() { return now_on; }
  template <class T>
  static T load_relaxed(const T& word) {
    ++loads;
    return HostAtomics::load_relaxed(word);
  }
};

// Ranks 0 and 2 on core 1, ranks 1 and 3 on core 2, as far as call 5 and step 5.
class SharedCores : public testing::Test {
 protected:
  SharedCores() {
    for (std::uint32_t r = 0; r < 4; ++r) {
      lines_[r] = {.step = 5, .sequence = 5, .core = r % 2 + 1, .echo = 0};
      PeerPort port{};
      port.steps = &lines_[r];
      ports_.push_back(port);
    }
    PlacedAtomics::now_on = 1;
  }
  void announce(std::uint64_t sequence) {
    core_.publish(ports_, 0, sequence);
    lines_[0].step = lines_[0].sequence = sequence;
  }
  bool is_wanted(int peer) const { return core_.is_wanted(ports_, 0, peer); }

  StepLine lines_[4];
  std::vector<PeerPort> ports_;
  SharedCore<PlacedAtomics> core_;
};

TEST_F(SharedCores, AreWantedByRanksThatAreBehind) {
  core_.enable();
  announce(6);
  EXPECT_TRUE(is_wanted(1)) << "rank 2 has not announced call 6";
  lines_[2] = {.step = 6, .sequence = 6, .core = 1, .echo = 0};
  EXPECT_FALSE(is_wanted(1)) << "nobody on this core can go on";
  EXPECT_TRUE(is_wanted(2));
  lines_[0].step = 7;
  EXPECT_TRUE(is_wanted(3)) << "rank 2 is a step behind";
}

TEST_F(SharedCores, AreNotWantedByRanksOfOtherCores) {
  core_.enable();
  lines_[2].core = 2;
  announce(8);
  for (const int peer : {1, 2, 3}) EXPECT_FALSE(is_wanted(peer));
}

TEST_F(SharedCores, AreFollowedWhereThisRankMoves) {
  core_.enable();
  announce(6);
  for (const int r : {1, 3}) lines_[r] = {.step = 7, .sequence = 7, .core = 2, .echo = 0};
  PlacedAtomics::now_on = 2;
  announce(7);
  EXPECT_EQ(lines_[0].core, 2u);
  EXPECT_TRUE(is_wanted(1));
  EXPECT_FALSE(is_wanted(2));
}

TEST_F(SharedCores, AreLookedForInOneOf64Calls) {
  core_.enable();
  announce(256);
  PlacedAtomics::loads = 0;
  for (std::uint64_t call = 257; call < 320; ++call) announce(call);
  EXPECT_EQ(PlacedAtomics::loads, 0);
  announce(320);
  EXPECT_EQ(PlacedAtomics::loads, 3);
}

TEST_F(SharedCores, ArePublishedOnlyWhereNoneIsSharedByNumber) {
  core_.enable_publishing();
  PlacedAtomics::now_on = 2;
  PlacedAtomics::loads = 0;
  for (const std::uint64_t call : {6, 7, 8}) announce(call);
  EXPECT_EQ(lines_[0].core, 1u) << "in one of four calls";
  announce(9);
  EXPECT_EQ(lines_[0].core, 2u);
  EXPECT_EQ(PlacedAtomics::loads, 0);
  for (const int peer : {1, 3}) EXPECT_FALSE(is_wanted(peer));
}

TEST_F(SharedCores, AreOfNoInterestWhereEachRankHasItsOwn) {
  announce(6);
  EXPECT_EQ(lines_[0].core, 1u);
  EXPECT_FALSE(is_wanted(2));
}

}  // namespace
}  // namespace rondo::host
