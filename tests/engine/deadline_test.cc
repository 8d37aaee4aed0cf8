// SPDX-License-Identifier: Apache-2.0
// A wait ends at its timeout, and not later. By the real clock only the first half can be tested: a
// busy machine makes every wait longer. So the waiting rank has a clock of its own here.
#include <gtest/gtest.h>
#include <signal.h>

#include "base/seconds.h"
#include "tests/support/engine_rank.h"
#include "tests/support/one_sided.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/stepped_clock.h"

namespace rondo::test {
namespace {

constexpr double kDeadlineSeconds = 2.4;
constexpr std::chrono::milliseconds kClockStep{40};

// Calls of rank 0 that wait for rank 1.
struct WaitingCall {
  const char* name;
  Status (*run)(Communicator& comm);
};
void PrintTo(const WaitingCall& call, std::ostream* out) { *out << call.name; }

Status run_for_deadline(Communicator& comm, Collective collective, std::size_t count) {
  SampleCall sample(collective, count, comm.size());
  return comm.run({&sample.call, 1});
}

const WaitingCall kWaitingCalls[] = {
    {"AllReduce",
     [](Communicator& comm) { return run_for_deadline(comm, Collective::kAllReduce, 3); }},
    {"AllToAll",
     [](Communicator& comm) { return run_for_deadline(comm, Collective::kAllToAll, 100); }},
    {"Receive",
     [](Communicator& comm) {
       int value = 0;
       const Call receive = message(Collective::kRecv, 1, &value, 1);
       return comm.run({&receive, 1});
     }},
    {"Signal",
     [](Communicator& comm) {
       const Call wait = wait_for(1, 1);
       return comm.run({&wait, 1});
     }},
};

class DeadlineOf : public testing::TestWithParam<WaitingCall> {};
INSTANTIATE_TEST_SUITE_P(Calls, DeadlineOf, testing::ValuesIn(kWaitingCalls),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(DeadlineOf, IsTheTimeoutAndNoLater) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{}, std::vector<std::string>{"a", "b"}}) {
    SCOPED_TRACE(hosts.empty() ? "on one host" : "on two hosts");
    Job job;
    job.comm = short_timeouts();
    job.hosts = hosts;
    RankProcesses ranks(2, job, [call = GetParam()](EngineRank& seat) {
      if (seat.rank == 1) sleep_until_killed();
      seat.comm->set_timeout(kDeadlineSeconds);
      const SteppedClock clock(kClockStep);
      const std::int64_t begun = now_ns();
      const Status done = call.run(*seat.comm);
      seat.mine().value.store(static_cast<std::uint64_t>(now_ns() - begun));
      seat.report(done);
    });
    ASSERT_TRUE(ranks.wait_reports({1}));
    EXPECT_EQ(ranks.status(0), StatusCode::kTimeout) << ranks.text(0);
    const double waited = static_cast<double>(ranks.board().seats[0].value.load()) * 1e-9;
    EXPECT_GE(waited, kDeadlineSeconds);
    EXPECT_LT(waited, 2 * kDeadlineSeconds);  // the fault's text takes 30 readings
  }
}

// Rank 1 never comes to the meeting of the survivors; rank 2 has ended. The meeting is served by a
// thread with the real clock, which may end it earlier.
TEST(ShrinkDeadline, IsNoLaterThanTheInitTimeout) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{}, std::vector<std::string>{"a", "b", "b"}}) {
    SCOPED_TRACE(hosts.empty() ? "on one host" : "on two hosts");
    Job job;
    job.comm = short_timeouts();
    job.hosts = hosts;
    RankProcesses ranks(3, job, [](EngineRank& seat) {
      if (seat.rank > 0) {
        seat.mark(1);
        sleep_until_killed();
      }
      ASSERT_TRUE(seat.wait_flag(1));
      const int excluded[] = {2};
      const SteppedClock clock(kClockStep);
      const std::int64_t begun = now_ns();
      const auto child = seat.comm->shrink(excluded, short_timeouts(kDeadlineSeconds), {});
      seat.mine().value.store(static_cast<std::uint64_t>(now_ns() - begun));
      seat.report(child.ok() ? ok_status() : child.error());
    });
    ASSERT_TRUE(ranks.wait_stage(1, {0}));
    ranks.send(2, SIGKILL);
    ranks.board().flag.store(1);
    ASSERT_TRUE(ranks.wait_reports({1, 2}));
    EXPECT_EQ(ranks.status(0), StatusCode::kTimeout) << ranks.text(0);
    const double waited = static_cast<double>(ranks.board().seats[0].value.load()) * 1e-9;
    EXPECT_LT(waited, 2 * kDeadlineSeconds);
  }
}

}  // namespace
}  // namespace rondo::test
