// SPDX-License-Identifier: Apache-2.0
// Signals that interrupt every system call, and forks of a process with communicators.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

std::atomic<int> signals_seen{0};

// 1000 signals per second of CPU time, and of real time for sleeping threads. System calls are not
// restarted.
void start_signal_storm() {
  struct sigaction action {};
  action.sa_handler = [](int) { signals_seen.fetch_add(1, std::memory_order_relaxed); };
  sigaction(SIGPROF, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &every, nullptr);
  setitimer(ITIMER_REAL, &every, nullptr);
  const int before = signals_seen.load();
  EXPECT_TRUE(wait_until([&] { return signals_seen.load() > before + 10; })) << "no storm";
}

void stop_signal_storm() {
  const itimerval never{};
  setitimer(ITIMER_PROF, &never, nullptr);
  setitimer(ITIMER_REAL, &never, nullptr);
}

Status sum_correctly(Communicator& comm, std::size_t count) {
  SampleCall sum(Collective::kAllReduce, count, comm.size());
  for (std::size_t i = 0; i < count; ++i) sum.input()[i] = comm.rank() + static_cast<int>(i);
  RONDO_CHECK_OK(comm.run({&sum.call, 1}));
  const int n = comm.size();
  for (std::size_t i = 0; i < count; ++i)
    if (sum.output()[i] != n * (n - 1) / 2 + n * static_cast<int>(i))
      return fail(StatusCode::kInternalError, "element {} of {} is {}", i, count, sum.output()[i]);
  return ok_status();
}

Status work_through_the_storm(Communicator& comm) {
  const int n = comm.size(), next = (comm.rank() + 1) % n, before = (comm.rank() + n - 1) % n;
  std::vector<int> out(50'000, comm.rank()), in(50'000);
  for (int i = 0; i < 8; ++i) {
    for (std::size_t count : {3u, 4000u, 60'000u}) RONDO_CHECK_OK(sum_correctly(comm, count));
    if (comm.rank() == i % n) nap(0.02);  // long enough for the others to sleep
    const Call calls[] = {message(Collective::kSend, next, out.data(), out.size()),
                          message(Collective::kRecv, before, in.data(), in.size())};
    RONDO_CHECK_OK(comm.run(calls));
    if (in[49'999] != before) return fail(StatusCode::kInternalError, "a wrong message came");
  }
  const int last = n - 1;
  auto child = comm.shrink({&last, 1}, short_timeouts(), {});
  if (comm.rank() == last) return ok_status();
  if (!child.ok()) return child.error();
  return sum_correctly(**child, 100);
}

class SignalStorm : public testing::TestWithParam<const char*> {};

TEST_P(SignalStorm, DisturbsNoInitAndNoCallOfProcesses) {
  Job options;
  options.create = false;
  if (*GetParam() != '\0') options.environment = {{"NCCL_ALGO", GetParam()}};
  RankProcesses ranks(4, options, [](EngineRank& seat) {
    start_signal_storm();
    Status done = seat.join(short_timeouts());
    if (done.ok()) done = work_through_the_storm(*seat.comm);
    stop_signal_storm();
    seat.report(done);
  });
  ASSERT_TRUE(ranks.wait_exits());
  for (int r = 0; r < 4; ++r)
    EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << "rank " << r << ": " << ranks.text(r);
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SignalStorm, testing::Values("", "ring", "tree"),
                         [](const auto& info) {
                           return std::string(*info.param == '\0' ? "planned" : info.param);
                         });

TEST(SignalStorm, DisturbsNoInitAndNoCallOfThreads) {
  start_signal_storm();
  {
    const Communicators comms = make_communicators(4, short_timeouts());
    run_ranks(comms, [](Communicator& comm) {
      const Status done = work_through_the_storm(comm);
      EXPECT_TRUE(done.ok()) << done.error().text;
    });
  }
  stop_signal_storm();
}

// ---- fork ----

// Runs in the forked child of a rank. Only the child's own communicators can be used there. Returns
// the number of the first step that failed, or 0.
int use_after_fork(Communicator& inherited) {
  const auto refused = [](const Status& done) {
    return done.code() == StatusCode::kInvalidUsage &&
           done.error().text.find("fork") != std::string::npos;
  };
  if (!refused(sum_correctly(inherited, 10))) return 1;
  const auto fault = inherited.fault();
  if (!fault || !refused(fault->error())) return 2;
  const int excluded = 1;
  auto child = inherited.shrink({&excluded, 1}, short_timeouts(), {});
  if (child.ok() || !refused(child.error())) return 3;
  auto part = inherited.split(0, 0, short_timeouts(), {});
  if (part.ok() || !refused(part.error())) return 4;
  inherited.abort();
  inherited.revoke();
  const Communicators own = make_communicators(2, short_timeouts());
  if (!own[0] || !own[1]) return 5;
  std::atomic<int> right{0};
  run_ranks(own, [&](Communicator& comm) { right += sum_correctly(comm, 30'000).ok() ? 1 : 0; });
  return right.load() == 2 ? 0 : 6;
}

TEST(ForkAfterInit, LeavesTheParentAloneAndLetsTheChildStartAnew) {
  for (bool destroys : {false, true}) {
    RankProcesses ranks(2, short_timeouts(), [destroys](EngineRank& seat) {
      seat.expect(sum_correctly(*seat.comm, 5000).ok(), "before the fork");
      if (seat.rank == 0) {
        const pid_t child = fork();
        if (child == 0) {
          const int step = use_after_fork(*seat.comm);
          if (destroys) seat.comm.reset();
          _exit(step);
        }
        // The parent keeps working while the child does this.
        for (int i = 0; i < 50; ++i) seat.expect(sum_correctly(*seat.comm, 5000).ok(), "meanwhile");
        int status = -1;
        waitpid(child, &status, 0);
        seat.expect(status == 0, fmt::format("the child ended with {:#x}", status));
      } else {
        for (int i = 0; i < 50; ++i) seat.expect(sum_correctly(*seat.comm, 5000).ok(), "meanwhile");
      }
      seat.report(sum_correctly(*seat.comm, 5000));
      seat.expect(!seat.comm->fault(), "the child's end made a fault");
    });
    ASSERT_TRUE(ranks.wait_exits());
    for (int r : {0, 1}) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
    ranks.check_expectations();
  }
}

// A thread was inside a call during the fork. That thread is absent in the child, so abort() there
// must not wait for it.
TEST(ForkAfterInit, InTheMiddleOfACallAbortStillReturns) {
  RankProcesses ranks(2, short_timeouts(), [](EngineRank& seat) {
    std::thread caller;
    if (seat.rank == 0) {
      caller = std::thread([&] { seat.report(sum_correctly(*seat.comm, 5000)); });
      seat.expect(all_wait({getpid()}, 1), "rank 0 does not wait");
      const pid_t child = fork();
      if (child == 0) {
        seat.comm->abort();
        _exit(sum_correctly(*seat.comm, 5).code() == StatusCode::kInvalidUsage ? 0 : 1);
      }
      int status = -1;
      wait_until([&] { return waitpid(child, &status, WNOHANG) != 0; });
      seat.expect(status == 0, fmt::format("the child ended with {:#x}", status));
      seat.board.flag.store(1);
      caller.join();
    } else {
      seat.expect(seat.wait_flag(1), "no flag");
      seat.report(sum_correctly(*seat.comm, 5000));
    }
  });
  ASSERT_TRUE(ranks.wait_exits());
  for (int r : {0, 1}) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
