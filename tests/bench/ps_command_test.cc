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
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/bench/shell.h"
#include "tests/support/environment.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/status_job.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

ShellResult ps(const std::string& words) { return shell(RONDO_PROGRAM " ps " + words); }

// Nothing if it fails: a process that a busy machine does not run does not answer.
std::optional<Json> ps_json(const std::string& words) {
  const ShellResult shown = ps(words + " --json 2>/dev/null");
  if (shown.status != 0) return std::nullopt;
  return Json::parse(shown.text);
}

// Of the first communicator of rondo ps PID.
std::vector<Json> ranks_of(const std::optional<Json>& job) {
  if (!job || job->at("communicators").elements().empty()) return {};
  return job->at("communicators").elements()[0].at("ranks_here").elements();
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
    const std::vector<Json> ranks = ranks_of(ps_json(pid()));
    return ranks.empty() ? 0 : ranks[0].at("call").number();
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
  std::string shown;
  const auto shows = [&](const std::string& text) { return shown.find(text) != std::string::npos; };
  EXPECT_TRUE(eventually([&] {
    shown = ps(bench.pid()).text;
    return shows("AllReduce(count 1") && shows(": 2 ranks, 2 on this host");
  })) << shown;
  std::vector<Json> ranks;
  EXPECT_TRUE(eventually([&] {  // a rank that a busy machine does not run for a second is blamed
    const auto job = ps_json(bench.pid());
    ranks = ranks_of(job);
    return ranks.size() == 2 && job->at("blamed").elements().empty();
  }));
  ASSERT_EQ(ranks.size(), 2u);
  for (const Json& rank : ranks) EXPECT_GT(rank.at("call").number(), 0);

  const int stopped = static_cast<int>(ranks[1].at("pid").number());
  kill(stopped, SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    shown = ps(bench.pid()).text;
    return shows(" is stopped") && shows(fmt::format("\nrank 1 (pid {} on ", stopped));
  })) << shown;
  std::optional<Json> jobs;
  EXPECT_TRUE(eventually([&] {  // on a busy machine, the other one does not answer in time, too
    jobs = ps_json("");
    if (!jobs || jobs->at("jobs").elements().size() != 1) return false;
    const Json& job = jobs->at("jobs").elements()[0];
    const auto& blamed = job.at("blamed").elements();
    return job.at("pids").elements().size() == 2 && job.at("silent_pids").elements().size() == 1 &&
           !blamed.empty() && blamed[0].at("rank").number() == 1;
  })) << (jobs ? jobs->text(2) : "");
  kill(stopped, SIGCONT);
}

// The lines that begin with "communicator".
std::vector<std::string> headings_of(const std::string& page) {
  std::vector<std::string> found;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("communicator ")) found.push_back(line);
  return found;
}

// In the second of three communicators rank 0 waits for rank 1, which does not come.
TEST(PsCommand, ShowsTheHungCommunicatorFirstAndTheIdleOnesInALineEach) {
  const test::StatusJob status;
  test::Job job = status.job();
  job.comm = test::short_timeouts(test::kLongestWait);
  job.comm.name = "first";
  test::RankProcesses ranks(2, job, [](test::EngineRank& seat) {
    std::vector<std::shared_ptr<Communicator>> groups = {seat.comm};
    for (const char* name : {"second", "third"}) {
      CommOptions options = seat.comm->options();
      options.name = name;
      auto group = seat.comm->split(0, seat.rank, options, {});
      ASSERT_TRUE(group.ok()) << group.error().text;
      groups.push_back(*group);
    }
    test::SampleCall sample(Collective::kAllReduce, 10, 2);
    for (const auto& group : groups) EXPECT_TRUE(group->run({&sample.call, 1}).ok());
    seat.mark(1);
    if (seat.rank == 0) (void)groups[1]->run({&sample.call, 1}).ok();
    test::sleep_until_killed();
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ShellResult shown;
  EXPECT_TRUE(eventually([&] {
    shown = ps(std::to_string(ranks.pid(0)));
    const std::vector<std::string> lines = headings_of(shown.text);
    return lines.size() == 3 && lines[0].find(" second: 2 ranks") != std::string::npos &&
           !lines[0].ends_with(", idle") && lines[1].find(" first: 2 ranks") != std::string::npos &&
           lines[1].ends_with(", idle") && lines[2].find(" third: 2 ranks") != std::string::npos &&
           lines[2].ends_with(", idle");
  })) << shown.text;
}

TEST(PsCommand, RepeatsItselfWhereAsked) {
  const test::TemporaryFolder folder;
  const test::WithEnvironment sockets("RONDO_STATUS_DIR", folder.path() + "/status");
  const RunningBench bench;
  ASSERT_TRUE(eventually([&] { return bench.newest_call() >= 100; }));
  const ShellResult shown = shell(
      fmt::format("timeout 250 {} ps {} --watch 0.1 | head -n 80", RONDO_PROGRAM, bench.pid()));
  int pages = 0;
  for (std::size_t at = 0;
       (at = shown.text.find(": 2 ranks, 2 on this host", at)) != std::string::npos; ++at)
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
