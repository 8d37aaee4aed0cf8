// SPDX-License-Identifier: Apache-2.0
// A rank stops. The others get an error that names the rank, its call, and the place of every rank.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/seconds.h"
#include "tests/support/engine_rank.h"
#include "tests/support/enough_time.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

void expect_line_for_each(const std::string& text, int ranks) {
  for (int r = 0; r < ranks; ++r)
    EXPECT_EQ(count_of(text, fmt::format("\n  rank {} (pid ", r)), 1) << text;
}

class StoppedRank : public testing::TestWithParam<const char*> {};

TEST_P(StoppedRank, IsNamedAndLearnsItWhenItGoesOn) {
  Job options;
  options.comm = short_timeouts();
  if (*GetParam() != '\0') options.environment = {{"NCCL_ALGO", GetParam()}};
  RankProcesses ranks(3, options, [](EngineRank& seat) {
    const DeadlineFromFlag deadline(seat, 0.5);
    SampleCall sample(Collective::kAllReduce, 5000, seat.size);
    for (int i = 0;; ++i) {
      const Status done = seat.comm->run({&sample.call, 1});
      if (!done.ok()) return seat.report(done);
      if (i == 5) seat.mark(1);
    }
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(1, SIGSTOP);
  ASSERT_TRUE(all_wait({ranks.pid(0)}, 1));
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_reports({1}));
  for (int r : {0, 2}) {
    const std::string text = ranks.text(r);
    EXPECT_EQ(ranks.status(r), StatusCode::kTimeout) << text;
    EXPECT_EQ(ranks.culprit(r), 1) << text;
    EXPECT_NE(text.find("for rank 1 (pid"), std::string::npos) << text;
    EXPECT_NE(text.find("AllReduce(count 5000, int32, sum)"), std::string::npos) << text;
    EXPECT_NE(text.find("waits for rank 1"), std::string::npos) << text;
    EXPECT_EQ(count_of(text, ", stopped"), 1) << text;
    EXPECT_NE(text.find("step "), std::string::npos) << text;
    expect_line_for_each(text, 3);
  }
  EXPECT_FALSE(ranks.reported(1));
  ranks.send(1, SIGCONT);
  ASSERT_TRUE(ranks.wait_reports());
  EXPECT_EQ(ranks.status(1), StatusCode::kTimeout) << ranks.text(1);
  EXPECT_EQ(ranks.text(1), ranks.text(0));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, StoppedRank, testing::Values("", "ring", "tree"),
                         [](const auto& info) {
                           return std::string(*info.param == '\0' ? "planned" : info.param);
                         });

TEST(AbsentRank, IsReportedNotToHaveEntered) {
  const Communicators comms = make_communicators(3);
  std::thread deadline([&] {
    EXPECT_TRUE(all_wait({getpid()}, 2));
    for (const auto& comm : comms) comm->set_timeout(0.3);
  });
  run_ranks(comms, [&](Communicator& comm) {
    SampleCall sample(Collective::kReduceScatter, 70, 3);
    if (comm.rank() == 2) return;
    const Status done = comm.run({&sample.call, 1});
    ASSERT_FALSE(done.ok());
    const std::string& text = done.error().text;
    EXPECT_EQ(done.code(), StatusCode::kTimeout) << text;
    EXPECT_NE(text.find("not entered call 1"), std::string::npos) << text;
    EXPECT_NE(text.find("ReduceScatter(count 70, int32, sum)"), std::string::npos) << text;
    EXPECT_NE(text.find("the communicator's timeout sets this limit"), std::string::npos) << text;
    EXPECT_EQ(text.find("RONDO_TIMEOUT"), std::string::npos) << text;
    expect_line_for_each(text, 3);
  });
  deadline.join();
  SampleCall sample(Collective::kReduceScatter, 70, 3);
  const Status late = comms[2]->run({&sample.call, 1});
  EXPECT_EQ(late.code(), StatusCode::kTimeout);
  ASSERT_TRUE(comms[2]->fault());
  EXPECT_EQ(comms[2]->fault()->culprit, 2);
}

// Rank 0 may wait for this much more when it is stopped, and stands for longer. Returns its error.
std::string stop_the_waiter(std::chrono::milliseconds time) {
  const double more = std::chrono::duration<double>(time).count();
  RankProcesses ranks(2, short_timeouts(), [&](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 100, 2);
    if (seat.rank == 1) {
      seat.expect(seat.wait_flag(2), "no flag");
      return seat.report(seat.comm->run({&sample.call, 1}));
    }
    const std::int64_t entered = now_ns();
    std::thread deadline([&] {
      if (!seat.wait_flag(1)) return;
      seat.comm->set_timeout(static_cast<double>(now_ns() - entered) * 1e-9 + more);
      seat.mark(1);
    });
    seat.report(seat.comm->run({&sample.call, 1}));
    deadline.join();
  });
  EXPECT_TRUE(all_wait({ranks.pid(0)}, 1));
  ranks.board().flag.store(1);
  if (!ranks.wait_stage(1, {1})) return "";
  ranks.send(0, SIGSTOP);
  ranks.board().flag.store(2);
  if (!ranks.wait_reports({0})) return "";  // it needs no more of rank 0, whose part is there
  nap(more + 0.5);
  ranks.send(0, SIGCONT);
  if (!ranks.wait_reports()) return "";
  ranks.check_expectations();
  if (ranks.status(0) == StatusCode::kSuccess && ranks.status(1) == StatusCode::kSuccess) return "";
  return ranks.text(0) + '\n' + ranks.text(1);
}

// Only time in which the waiter itself runs counts: stopping a job with Ctrl-Z or a debugger is no
// fault. On a busy machine it may reach its deadline before it is stopped.
TEST(StoppedWaiter, DoesNotTimeOutForTheTimeInWhichItStood) {
  with_enough_time(std::chrono::milliseconds(1500), stop_the_waiter);
}

// The receiver of messages at intervals; returns the longest interval, as the sender saw it.
double receive_at_intervals(double interval, double limit, Status* received) {
  const Communicators comms = make_communicators(2);
  comms[0]->set_timeout(limit);
  double longest = 0;
  std::int64_t sent = now_ns();
  run_ranks(comms, [&](Communicator& comm) {
    std::vector<int> values(static_cast<std::size_t>(1.5 * limit / interval) + 1);
    std::vector<Call> calls;
    for (int& value : values)
      calls.push_back(message(comm.rank() == 0 ? Collective::kRecv : Collective::kSend,
                              1 - comm.rank(), &value, 1));
    if (comm.rank() == 0) {
      *received = comm.run(calls);
      return;
    }
    for (const Call& call : calls) {
      nap(interval);
      const Status done = comm.run({&call, 1});
      const std::int64_t now = now_ns();
      longest = std::max(longest, static_cast<double>(now - std::exchange(sent, now)));
      if (!done.ok()) return;
    }
  });
  return longest * 1e-9;
}

// A call that takes longer than the limit, but always makes progress within it, succeeds. If the
// machine was too busy for that, the limit was too short.
TEST(Deadline, RestartsOnProgress) {
  Status received;
  for (double limit = 0.5, longest = limit; longest > limit / 2 && limit < 100; limit *= 2) {
    longest = receive_at_intervals(0.1, limit, &received);
    if (received.ok()) return;
  }
  FAIL() << received.error().text;
}

}  // namespace
}  // namespace rondo::test
