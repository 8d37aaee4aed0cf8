// SPDX-License-Identifier: Apache-2.0
// How one rank writes its peers' words, and how long it waits for them.
#include "tests/support/fake_peers.h"

#include <cstring>

#include "base/seconds.h"
#include "tests/support/one_sided.h"
#include "tests/support/rank_seat.h"
#include "tests/support/supervisor_seam.h"

namespace rondo::test {

// Sets the age of a wait for the end of peers' accesses, and makes its next check due.
struct WithdrawalSeam {
  static void age(Withdrawal& withdrawal, double seconds) {
    withdrawal.began_ns_ = now_ns() - static_cast<std::int64_t>(seconds * 1e9);
    withdrawal.last_look_ns_ = withdrawal.began_ns_;
  }
};

namespace {

class Signals : public FakePeers {};

// A sleep ends by its timeout, so the test checks the bell itself.
TEST_F(Signals, RingForThePeerThatSleepsAndForNobodyElse) {
  *port(1).parked = 1;
  const Call calls[] = {signal_to(1, 3), signal_to(2, 3)};
  ASSERT_TRUE(state_.one_sided.run(calls).ok());
  EXPECT_EQ(port(1).signals[3], 1u);
  EXPECT_EQ(port(2).signals[3], 1u);
  EXPECT_EQ(*port(1).bell, 1u);
  EXPECT_EQ(*port(2).bell, 0u);
}

class Deadlines : public FakePeers {};

// Same as in fault_timeout_test.cc, but without depending on a check right after the stop.
TEST_F(Deadlines, DoNotCountTheTimeInWhichTheWaiterStood) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const WaitSite site{-1, 0, 1};
  state_.timeout_seconds.store(600);
  state_.call.record = {5000, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
  ASSERT_TRUE(state_.supervisor.keep_waiting(site, true));
  for (int stop = 0; stop < 3; ++stop) {
    SupervisorSeam::stand(state_.supervisor, 1000 * kSecond);
    EXPECT_TRUE(state_.supervisor.keep_waiting(site, false));
  }
  SupervisorSeam::age(state_.supervisor, 600 * kSecond);
  EXPECT_FALSE(state_.supervisor.keep_waiting(site, false));
  EXPECT_EQ(state_.faults.fault()->status, StatusCode::kTimeout);
}

class Faults : public FakePeers {
 protected:
  void publish(int rank, const char* text) {
    FaultSlot& slot = *port(rank).fault;
    slot.status = static_cast<std::int32_t>(StatusCode::kRemoteError);
    slot.rank = rank;
    std::strcpy(slot.text, text);
    slot.state = 1;
    *port(rank).faulted = 1;
  }
};

// The lower rank has withdrawn, but its fault is not written yet, and may never be.
TEST_F(Faults, OfHigherRanksAreSeenBehindAPeerThatHasPublishedNone) {
  *port(1).faulted = 1;
  EXPECT_FALSE(state_.faults.adopt_from_peers());
  publish(2, "rank 2 has found a fault");
  ASSERT_TRUE(state_.faults.adopt_from_peers());
  EXPECT_EQ(state_.faults.fault()->text, "rank 2 has found a fault");
}

// In a gather to rank 0, rank 1 has given its part and left; rank 2 has not come yet.
class Partings : public FakePeers {
 protected:
  Partings() {
    auto group = std::make_shared<shm::HostGroup>();
    for (int r = 0; r < kRanks; ++r) {
      group->processes.push_back({{static_cast<std::uint64_t>(r)}, nullptr});
      group->process_of_member.push_back(r);
    }
    state_.members.group = std::move(group);
    state_.supervisor.watch_processes();
    state_.call.record = {5000, Collective::kGather, DataType::kInt32, RedOp::kSum, 0, 0};
    progress(1).state = kLeft;
  }
  // Checks of a wait for rank 2, at least 10 ms apart, which count. A fault needs two.
  bool goes_on_waiting() {
    const WaitSite site{2, 0, 2};
    if (!state_.supervisor.keep_waiting(site, true)) return false;
    for (int check = 0; check < 4; ++check) {
      nap(0.02);
      if (!state_.supervisor.keep_waiting(site, false)) return false;
    }
    return true;
  }
};

TEST_F(Partings, OfARankThatFinishedItsPartAreNoFaultWhileAnotherIsLate) {
  progress(1).finished = state_.host.sequence;
  EXPECT_TRUE(goes_on_waiting());
  EXPECT_FALSE(state_.faults.fault().has_value()) << state_.faults.fault()->text;
}

TEST_F(Partings, OfARankThatLeftItsPartUndoneAreItsFault) {
  EXPECT_FALSE(goes_on_waiting());
  ASSERT_TRUE(state_.faults.fault().has_value());
  EXPECT_EQ(state_.faults.fault()->culprit, 1);
}

class Withdrawals : public FakePeers {
 protected:
  // One check in a wait that has lasted `seconds`, for a rank of this process.
  bool goes_on_after(double seconds) {
    const WaitSite site{-1, 1, -1, [](const void*, int rank) { return rank == 1; }, this};
    if (!state_.withdrawal.await_touches(site, true)) return false;
    WithdrawalSeam::age(state_.withdrawal, seconds);
    return state_.withdrawal.await_touches(site, false);
  }
};

TEST_F(Withdrawals, AwaitARankOfThisProcessUntilTheTimeoutOfTheCommunicator) {
  port(1).same_process = true;
  state_.timeout_seconds.store(600);
  EXPECT_TRUE(goes_on_after(400));
  EXPECT_FALSE(goes_on_after(601));
}

TEST_F(Withdrawals, AwaitARankOfAnotherProcessForAMoment) {
  EXPECT_FALSE(goes_on_after(2));
  EXPECT_TRUE(state_.withdrawal.touches_may_go_on());
}

}  // namespace
}  // namespace rondo::test
