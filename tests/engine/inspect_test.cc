// SPDX-License-Identifier: Apache-2.0
// Inspecting ranks from outside shows which call each is in, and which rank it waits for.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/status/inspect.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

// Inspects `rank` until its state contains `text`. Returns the last state.
std::string wait_for_text(int pid, int rank, const std::string& text) {
  std::string last;
  wait_until([&] {
    const auto views = inspect_process(pid);
    if (!views.ok()) last = views.error().text;
    if (!views.ok()) return true;
    for (const RankView& view : views->front().ranks)
      if (view.rank == rank) last = view.doing;
    return last.find(text) != std::string::npos;
  });
  return last;
}

TEST(Inspect, ReportsWhoIsInWhichCallAndWhomItWaitsFor) {
  CommOptions options = short_timeouts();
  options.name = "weights";
  RankProcesses ranks(3, options, [](EngineRank& seat) {
    SampleCall first(Collective::kAllReduce, 100, 3), second(Collective::kAllReduce, 5000, 3);
    seat.expect(seat.comm->run({&first.call, 1}).ok(), "the first call");
    seat.mark(1);
    if (seat.rank == 2) seat.wait_flag(1);
    seat.expect(seat.comm->run({&second.call, 1}).ok(), "the second call");
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  // All is read at once: a rank that a busy machine does not run for a second waits for nobody.
  auto views = inspect_process(ranks.pid(1));
  ASSERT_TRUE(wait_until([&] {
    views = inspect_process(ranks.pid(1));
    return !views.ok() || views->front().ranks[0].waits_for == 2;
  }));
  ASSERT_TRUE(views.ok()) << views.error().text;
  const std::string doing = views->front().ranks[0].doing;
  EXPECT_NE(doing.find("in call 2, AllReduce(count 5000, int32, sum)"), std::string::npos) << doing;
  EXPECT_NE(doing.find("waits for rank 2"), std::string::npos) << doing;
  ASSERT_EQ(views->size(), 1u);
  EXPECT_EQ(views->front().name, "weights");
  EXPECT_EQ(views->front().size, 3);
  ASSERT_EQ(views->front().ranks.size(), 3u);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(views->front().ranks[r].pid, ranks.pid(r));
  EXPECT_NE(views->front().ranks[2].doing.find("not entered call 2 (newest: 1)"), std::string::npos)
      << views->front().ranks[2].doing;
  const RankView &waiting = views->front().ranks[0], &late = views->front().ranks[2];
  EXPECT_EQ(waiting.call, 2u);
  EXPECT_EQ(waiting.finished, 1u);
  EXPECT_EQ(waiting.waits_for, 2);
  EXPECT_EQ(waiting.state, "running");
  EXPECT_EQ(late.call, 1u);
  EXPECT_EQ(late.finished, 1u);
  EXPECT_EQ(late.waits_for, -1);
  ranks.send(2, SIGSTOP);
  const std::string stopped = wait_for_text(ranks.pid(0), 2, "stopped");
  EXPECT_NE(stopped.find("stopped"), std::string::npos) << stopped;
  EXPECT_EQ(inspect_process(ranks.pid(0))->front().ranks[2].state, "stopped");
  ranks.send(2, SIGCONT);
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_exits());  // inspection did not disturb the ranks
  ranks.check_expectations();
}

TEST(Inspect, SeesRanksThatAreThreadsAndEveryCommunicator) {
  const Communicators pair = make_communicators(2), trio = make_communicators(3);
  run_ranks(trio, [](Communicator& comm) {
    SampleCall sample(Collective::kBroadcast, 10, 3, 1);
    EXPECT_TRUE(comm.run({&sample.call, 1}).ok());
  });
  const auto views = inspect_process(getpid());
  ASSERT_TRUE(views.ok()) << views.error().text;
  const auto has = [&](int size, const std::string& doing) {
    for (const CommunicatorView& view : *views) {
      if (view.size != size) continue;
      EXPECT_EQ(static_cast<int>(view.ranks.size()), size);
      bool all = true;
      for (const RankView& rank : view.ranks)
        all &= rank.doing.find(doing) != std::string::npos && rank.pid == getpid();
      if (all) return true;
    }
    return false;
  };
  EXPECT_TRUE(has(2, "no collective yet"));
  EXPECT_TRUE(has(3, "finished call 1, Broadcast(count 10, int32, root 1)"));
}

TEST(Inspect, ReportsWhyThereIsNothingToSee) {
  const auto text = [](int pid) {
    const auto views = inspect_process(pid);
    return views.ok() ? std::string("no error") : views.error().text;
  };
  EXPECT_EQ(text(0), "0 is not a process id");
  EXPECT_NE(text(1 << 30).find("there is no process 1073741824"), std::string::npos);
  const pid_t child = fork();
  if (child == 0) {
    execlp("sleep", "sleep", "600", nullptr);
    _exit(1);
  }
  std::string output;
  wait_until([&] {
    output = text(child);
    return output.find("(sleep 600)") != std::string::npos;
  });
  EXPECT_NE(output.find("(sleep 600) has no Rondo communicator"), std::string::npos) << output;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace rondo::test
