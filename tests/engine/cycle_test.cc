// SPDX-License-Identifier: Apache-2.0
// Detection of wait cycles, on words that the test writes itself: ranks in a cycle are reported,
// and ranks that are only slow are not.
#include <gtest/gtest.h>

#include "tests/support/fake_peers.h"
#include "tests/support/supervisor_seam.h"

namespace rondo::test {
namespace {

constexpr std::int64_t kLong = 200'000'000;  // ns: longer than the deadline before a first look

class Cycles : public FakePeers {
 protected:
  Cycles() {
    state_.call.record = {5000, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
  }

  // Publishes what rank `rank` publishes when it begins a wait.
  void wait_in_message(int rank, int for_rank) {
    ProgressLine& line = progress(rank);
    line.call = {10, Collective::kRecv, DataType::kInt32, RedOp::kSum, 0, -1};
    line.waiting_for = for_rank;
    line.state = kWaiting;
    ++line.waits;
  }

  bool begin(const WaitSite& site) { return state_.supervisor.keep_waiting(site, true); }
  // Rank 0 checks again in a long wait; the others have once more found their conditions false.
  bool look(const WaitSite& site) {
    for (int r = 1; r < kRanks; ++r) ++progress(r).checks;
    SupervisorSeam::age(state_.supervisor, kLong);
    return state_.supervisor.keep_waiting(site, false);
  }
};

WaitSite on(int rank) { return {-1, 0, rank}; }

TEST_F(Cycles, OfTwoRanksInDifferentCallsEndWithBoth) {
  ASSERT_TRUE(begin(on(1)));
  progress(1).call = {5, Collective::kBroadcast, DataType::kInt32, RedOp::kSum, 0, 0};
  progress(1).waiting_for = 0;
  progress(1).state = kWaiting;
  progress(1).waits = 1;
  int looks = 0;
  while (looks < 10 && look(on(1))) ++looks;
  EXPECT_GE(looks, 2) << "the first sight proves nothing";
  ASSERT_TRUE(state_.faults.is_raised());
  EXPECT_EQ(state_.faults.fault()->status, StatusCode::kInvalidUsage);
  EXPECT_NE(state_.faults.fault()->text.find("AllReduce(count 5000"), std::string::npos);
  EXPECT_NE(state_.faults.fault()->text.find("Broadcast(count 5"), std::string::npos);
}

// A finished part of a call no longer waits. A rank that waits for this rank's next data forms no
// cycle with that part.
TEST_F(Cycles, AreNotMadeOfAWaitOfAPartThatHasEnded) {
  state_.call.waiting_parts = 2;
  ASSERT_TRUE(begin(on(2)));
  ASSERT_TRUE(begin(on(1)));  // publishes 1, then the wait ends
  EXPECT_EQ(progress(0).waiting_for, 1);
  state_.call.waiting_parts = 1;
  progress(1).call = state_.call.record;  // the same call, behind this rank in the tree
  progress(1).waiting_for = 0;
  progress(1).state = kWaiting;
  progress(1).waits = 1;
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(look(on(2))) << "look " << i << ": " << state_.faults.fault()->text;
  EXPECT_EQ(progress(0).waiting_for, 2);
  EXPECT_EQ(progress(0).state, kWaiting);
}

TEST_F(Cycles, AreNotLookedForWhileTwoPartsWait) {
  state_.call.waiting_parts = 2;
  progress(1).call = state_.call.record;
  progress(1).waiting_for = 0;
  progress(1).state = kWaiting;
  progress(1).waits = 1;
  ASSERT_TRUE(begin(on(1)));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(look(on(1)));
  EXPECT_EQ(progress(0).state, kWaitingTwice);
}

// A rank that waits in a message, outside this rank's collective, gets nothing from any part of it.
// This is found without a cycle.
TEST_F(Cycles, AreNotNeededToKnowThatAMessageNeverComes) {
  state_.call.waiting_parts = 2;
  ASSERT_TRUE(begin(on(2)));
  wait_in_message(1, 0);
  int looks = 0;
  while (looks < 10 && look(on(2))) ++looks;
  EXPECT_GE(looks, 2);
  ASSERT_TRUE(state_.faults.is_raised());
  EXPECT_EQ(state_.faults.fault()->status, StatusCode::kInvalidUsage);
  EXPECT_EQ(state_.faults.fault()->culprit, 1);
  EXPECT_NE(state_.faults.fault()->text.find("Recv(count 10"), std::string::npos)
      << state_.faults.fault()->text;
  EXPECT_NE(state_.faults.fault()->text.find("AllReduce(count 5000"), std::string::npos);
}

TEST_F(Cycles, AreNotSeenInMessagesThatGetOnOrThatNeedNotEnd) {
  ASSERT_TRUE(begin(on(2)));
  for (int i = 0; i < 10; ++i) {
    wait_in_message(1, 0);  // a different wait each time
    ASSERT_TRUE(look(on(2))) << state_.faults.fault()->text;
  }
  // A message after the collective, which the peer has already left.
  wait_in_message(1, 0);
  state_.host.peers[1].steps->sequence = 1;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(look(on(2))) << state_.faults.fault()->text;
  // A root can finish without its receivers.
  state_.host.peers[1].steps->sequence = 0;
  state_.call.record.collective = Collective::kBroadcast;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(look(on(2))) << state_.faults.fault()->text;
}

}  // namespace
}  // namespace rondo::test
