// SPDX-License-Identifier: Apache-2.0
// What the supervisor of waits guarantees to sleeping ranks and to ranks that have ended, on real
// communicators, with every moment of the waits chosen by the test.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <future>
#include <limits>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/supervisor_seam.h"
#include "tests/support/tagged_messages_seam.h"

namespace rondo::test {
namespace {

// How rank 0 gets its fault.
struct Cause {
  const char* name;
  void (*raise)(Communicator& rank_0);
  StatusCode expected;  // what the others get
};
void PrintTo(const Cause& cause, std::ostream* out) { *out << cause.name; }

class FaultOf : public testing::TestWithParam<Cause> {};

// A sleep ends by its timeout, so a fault without a ring is only late, which looks like a busy
// machine. So the test checks the bell itself.
TEST_P(FaultOf, OneRankRingsEveryRankThatSleeps) {
  constexpr int kRanks = 3;
  const Communicators comms = make_communicators(kRanks);
  std::shared_ptr<TaggedMessages> boxes[kRanks];
  run_ranks(comms, [&](Communicator& comm) {
    boxes[comm.rank()] = TaggedMessages::open(comms[comm.rank()], 64).value();
  });
  std::future<Status> calls[kRanks];
  for (const int r : {1, 2})
    calls[r] = std::async(std::launch::async, [&comms, r] {
      int value = 0;
      const Call receive = message(Collective::kRecv, 0, &value, 1);
      return comms[r]->run({&receive, 1});
    });
  std::uint32_t bells[kRanks] = {};
  for (const int r : {1, 2}) {
    const PeerPort& port = TaggedMessagesSeam::state(*boxes[r]).host.self();
    ASSERT_TRUE(wait_until([&] { return HostAtomics::load_acquire(*port.parked) != 0; }));
    bells[r] = HostAtomics::load_acquire(*port.bell);
  }
  GetParam().raise(*comms[0]);
  for (const int r : {1, 2}) {
    EXPECT_NE(HostAtomics::load_acquire(*TaggedMessagesSeam::state(*boxes[r]).host.self().bell),
              bells[r])
        << "rank " << r << " sleeps on";
    ASSERT_EQ(calls[r].wait_for(std::chrono::duration<double>(kLongestWait)),
              std::future_status::ready);
    const Status done = calls[r].get();
    EXPECT_EQ(done.code(), GetParam().expected) << (done.ok() ? "" : done.error().text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Causes, FaultOf,
    testing::Values(
        Cause{"Abort", [](Communicator& rank_0) { rank_0.abort(); }, StatusCode::kRemoteError},
        Cause{"Revoke", [](Communicator& rank_0) { rank_0.revoke(); }, StatusCode::kRemoteError},
        Cause{"Deadline",
              [](Communicator& rank_0) {
                rank_0.set_timeout(0.05);
                int value = 0;
                const Call receive = message(Collective::kRecv, 1, &value, 1);
                EXPECT_EQ(rank_0.run({&receive, 1}).code(), StatusCode::kTimeout);
              },
              StatusCode::kTimeout}),
    [](const auto& info) { return info.param.name; });

// Rank 0 waits through its own supervisor for a condition of the test.
class Waits {
 public:
  explicit Waits(CommunicatorState& state) : state_(state) {
    state_.supervisor.install(false);
    state_.host.waiter.set_budget({0, 1, std::numeric_limits<std::int64_t>::max()});
  }
  std::uint32_t checks() const {
    return HostAtomics::load_acquire(state_.host.self().progress->checks);
  }
  // Returns once the peer is dead and a full check is due.
  bool kill_peer() {
    const Membership& members = state_.members;
    pollfd& peer = SupervisorSeam::pidfd(state_.supervisor, members.group->process_of_member[1]);
    return kill(members.ranks[1].pid, SIGKILL) == 0 && poll(&peer, 1, -1) == 1 && (nap(0.05), true);
  }
  template <class Ready>
  bool until(const Ready& ready) {
    return state_.host.waiter.until(ready, {1, 0});
  }

 private:
  CommunicatorState& state_;
};

// A peer provides the awaited value and exits, both between the waiter's check of its condition and
// its check for dead peers. That check finds the peer dead, and the next check of the condition
// succeeds.
TEST(Death, IsNoFaultWhereWhatIsWaitedForCameBeforeIt) {
  RankProcesses ranks(2, short_timeouts(), [](EngineRank& seat) {
    const std::shared_ptr<TaggedMessages> box = TaggedMessages::open(seat.comm, 64).value();
    CommunicatorState& state = TaggedMessagesSeam::state(*box);
    if (seat.rank == 1) sleep_until_killed();
    Waits waits(state);
    std::optional<std::uint32_t> checks_at_death;
    const std::uint32_t checks_before = waits.checks();
    const bool came = waits.until([&] {
      if (checks_at_death) return waits.checks() != *checks_at_death;
      if (waits.checks() == checks_before)
        return false;  // the first check does not look for deaths
      seat.expect(waits.kill_peer(), "rank 1 could not be killed");
      checks_at_death = waits.checks();
      return false;  // the state before the death
    });
    seat.expect(came, state.faults.is_raised() ? state.faults.fault()->text
                                               : "the wait ended without a fault");
    seat.expect(!seat.comm->fault(), "a fault though all that was waited for came");
    // What the peer did not finish is a fault.
    seat.expect(!waits.until([] { return false; }), "something came from a dead rank");
    const auto fault = seat.comm->fault();
    seat.report(fault ? Status(fault->error()) : ok_status());
  });
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
  EXPECT_EQ(ranks.text(0).rfind("rank 1 ", 0), 0u) << ranks.text(0);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
