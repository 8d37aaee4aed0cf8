// SPDX-License-Identifier: Apache-2.0
// A rank stops. The others get an error that names the rank, its call, and the place of every rank.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

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
  options.comm = short_timeouts(1);
  options.comm.init_timeout_seconds = 20;
  if (*GetParam() != '\0') options.environment = {{"NCCL_ALGO", GetParam()}};
  RankProcesses ranks(3, options, [](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 5000, seat.size);
    for (int i = 0;; ++i) {
      const Status done = seat.comm->run({&sample.call, 1});
      if (!done.ok()) return seat.report(done);
      if (i == 5) seat.mark(1);
    }
  });
  ASSERT_TRUE(ranks.wait_stage(1, 20));
  ranks.send(1, SIGSTOP);
  ASSERT_TRUE(ranks.wait_reports(20, {1}));
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
  ASSERT_TRUE(ranks.wait_reports(20));
  EXPECT_EQ(ranks.status(1), StatusCode::kTimeout) << ranks.text(1);
  EXPECT_EQ(ranks.text(1), ranks.text(0));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, StoppedRank, testing::Values("", "ring", "tree"),
                         [](const auto& info) {
                           return std::string(*info.param == '\0' ? "planned" : info.param);
                         });

TEST(AbsentRank, IsReportedNotToHaveEntered) {
  CommOptions options = short_timeouts(20);
  const Communicators comms = make_communicators(3, options);
  for (const auto& comm : comms) comm->set_timeout(0.5);
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
  SampleCall sample(Collective::kReduceScatter, 70, 3);
  const Status late = comms[2]->run({&sample.call, 1});
  EXPECT_EQ(late.code(), StatusCode::kTimeout);
  ASSERT_TRUE(comms[2]->fault());
  EXPECT_EQ(comms[2]->fault()->culprit, 2);
}

// Only time in which the waiter itself runs counts: stopping a job with Ctrl-Z or a debugger is no
// fault.
TEST(StoppedWaiter, DoesNotTimeOutForTheTimeInWhichItStood) {
  Job options;
  options.comm = short_timeouts(1.5);
  options.comm.init_timeout_seconds = 20;
  RankProcesses ranks(2, options, [](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 100, 2);
    seat.mark(1);
    if (seat.rank == 1) seat.expect(seat.wait_flag(1, 20), "no flag");
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ASSERT_TRUE(ranks.wait_stage(1, 20));
  nap(0.2);
  ranks.send(0, SIGSTOP);
  nap(3);
  ranks.board().flag.store(1);
  ranks.send(0, SIGCONT);
  ASSERT_TRUE(ranks.wait_reports(20));
  for (int r : {0, 1}) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  ranks.check_expectations();
}

// A call that takes longer than the limit, but always makes progress within it, succeeds.
TEST(Deadline, RestartsOnProgress) {
  const Communicators comms = make_communicators(2, short_timeouts(20));
  constexpr int kMessages = 8;
  comms[0]->set_timeout(1.2);
  run_ranks(comms, [&](Communicator& comm) {
    int values[kMessages] = {};
    std::vector<Call> calls;
    for (int& value : values)
      calls.push_back(message(comm.rank() == 0 ? Collective::kRecv : Collective::kSend,
                              1 - comm.rank(), &value, 1));
    if (comm.rank() == 0) {
      const Status done = comm.run(calls);
      EXPECT_TRUE(done.ok()) << done.error().text;
      return;
    }
    for (const Call& call : calls) {
      nap(0.25);
      const Status done = comm.run({&call, 1});
      ASSERT_TRUE(done.ok()) << done.error().text;
    }
  });
}

}  // namespace
}  // namespace rondo::test
