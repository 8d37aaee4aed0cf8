// SPDX-License-Identifier: Apache-2.0
// rondo ps as a program: what it prints of a job whose ranks wait for one that is stopped, and of a
// user's jobs.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "base/json.h"
#include "base/poll_until.h"
#include "tests/bench/shell.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

ShellResult ps(const std::string& words) { return shell(RONDO_PROGRAM " ps " + words); }

Json ps_json(const std::string& words) {
  return Json::parse(ps(words + " --json 2>/dev/null").text);
}

// False after five minutes.
bool eventually(const std::function<bool()>& holds) {
  return poll_until(holds, seconds_from_now(300), std::chrono::milliseconds(50));
}

// A rondo bench that makes calls of two ranks until the end of the test.
class RunningBench {
 public:
  RunningBench() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1), dup2(nowhere, 2);
    execl(RONDO_PROGRAM, RONDO_PROGRAM, "bench", "all_reduce", "--ranks", "2", "--processes", "-b",
          "4", "-e", "4", "-n", "100000000", "--no-progress", nullptr);
    _exit(126);
  }
  ~RunningBench() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  std::string pid() const { return std::to_string(pid_); }
  // Of its first rank; 0: not there yet.
  double newest_call() const {
    if (ps(pid()).status != 0) return 0;
    const Json now = ps_json(pid());
    return now.at("communicators")
        .elements()
        .at(0)
        .at("ranks_here")
        .elements()
        .at(0)
        .at("call")
        .number();
  }

 private:
  int pid_;
};

TEST(PsCommand, ShowsWhatRanksAreDoingAndWhomTheyWaitFor) {
  const test::TemporaryFolder folder;
  const test::WithEnvironment sockets("RONDO_STATUS_DIR", folder.path() + "/status");
  EXPECT_EQ(ps("").text, "no job of this user on this host\n");
  const RunningBench bench;
  ASSERT_TRUE(eventually([&] { return bench.newest_call() >= 100; }));
  std::string shown = ps(bench.pid()).text;
  EXPECT_NE(shown.find("AllReduce(count 1"), std::string::npos) << shown;
  EXPECT_NE(shown.find(": 2 ranks, 2 on this host"), std::string::npos) << shown;
  Json json;
  EXPECT_TRUE(eventually([&] {  // a rank that a busy machine does not run for a second is blamed
    json = ps_json(bench.pid());
    return json.at("blamed").elements().empty();
  }));
  const auto& ranks = json.at("communicators").elements().at(0).at("ranks_here").elements();
  ASSERT_EQ(ranks.size(), 2u);
  for (const Json& rank : ranks) EXPECT_GT(rank.at("call").number(), 0);

  const int stopped = static_cast<int>(ranks[1].at("pid").number());
  kill(stopped, SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    shown = ps(bench.pid()).text;
    return shown.find(" is stopped") != std::string::npos;
  }));
  EXPECT_NE(shown.find(fmt::format("\nrank 1 (pid {} on ", stopped)), std::string::npos) << shown;
  Json jobs;
  EXPECT_TRUE(eventually([&] {  // on a busy machine, the other one does not answer in time, too
    jobs = ps_json("");
    const auto& listed = jobs.at("jobs").elements();
    return listed.size() != 1 || listed[0].at("silent_pids").elements().size() < 2;
  }));
  ASSERT_EQ(jobs.at("jobs").elements().size(), 1u);
  const Json& job = jobs.at("jobs").elements()[0];
  EXPECT_EQ(job.at("pids").elements().size(), 2u);
  EXPECT_EQ(job.at("silent_pids").elements().size(), 1u);
  EXPECT_EQ(job.at("blamed").elements().at(0).at("rank").number(), 1);
  kill(stopped, SIGCONT);
}

TEST(PsCommand, RepeatsItselfWhereAsked) {
  const test::TemporaryFolder folder;
  const test::WithEnvironment sockets("RONDO_STATUS_DIR", folder.path() + "/status");
  const RunningBench bench;
  ASSERT_TRUE(eventually([&] { return bench.newest_call() >= 100; }));
  const ShellResult shown = shell(
      fmt::format("timeout 250 {} ps {} --watch 0.1 | head -n 40", RONDO_PROGRAM, bench.pid()));
  int pages = 0;
  for (std::size_t at = 0; (at = shown.text.find("communicator: 2 ranks", at)) != std::string::npos;
       ++at)
    ++pages;
  EXPECT_GE(pages, 3) << shown.text;
  EXPECT_EQ(shown.text.find('\x1b'), std::string::npos) << "clears a pipe";
}

// Neither by the job's socket nor by /proc: one line says why.
TEST(PsCommand, GivesAnotherUserOneLine) {
  const std::string as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  if (shell(as_nobody + RONDO_PROGRAM + " --version").status != 0)
    GTEST_SKIP() << "this user cannot become another one that can run the program";
  const RunningBench bench;
  ASSERT_TRUE(eventually([&] { return bench.newest_call() >= 100; }));
  const ShellResult refused = shell(as_nobody + RONDO_PROGRAM + " ps " + bench.pid());
  EXPECT_EQ(refused.status, 1) << refused.text;
  EXPECT_EQ(std::count(refused.text.begin(), refused.text.end(), '\n'), 1) << refused.text;
  EXPECT_NE(refused.text.find(bench.pid()), std::string::npos) << refused.text;
  const ShellResult listed = shell(as_nobody + RONDO_PROGRAM + " ps");
  EXPECT_EQ(listed.text, "no job of this user on this host\n");
}

TEST(PsCommand, RefusesWhatIsNoProcessWithRanks) {
  EXPECT_EQ(ps("1073741824").status, 1);
  EXPECT_EQ(ps("0").status, 1);
  EXPECT_EQ(ps("x").status, 2);
  EXPECT_EQ(ps("--hosts").status, 2);
}

}  // namespace
}  // namespace rondo
