// SPDX-License-Identifier: Apache-2.0
// The commands that look at jobs, beside jobs that are stopped, have ended, or are no jobs of
// Rondo: each ends, names what does not answer, and shows the others.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "tests/bench/shell.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "transport/status/user_folder.h"

namespace rondo {
namespace {

ShellResult run(const std::string& words) { return shell(RONDO_PROGRAM " " + words); }

// A child that runs `body`; it is killed at the end of the test.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  int pid() const { return pid_; }

 private:
  int pid_;
};

// Two ranks that are threads, and make calls without end.
void bench() {
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, 1), dup2(nowhere, 2);
  execl(RONDO_PROGRAM, RONDO_PROGRAM, "bench", "all_reduce", "--ranks", "2", "--threads", "-b", "4",
        "-e", "4", "-N", "0", "--no-progress", nullptr);
  _exit(126);
}

// A process with a status socket that is not Rondo's: what it sends, again and again if `endless`.
void foreign(const std::string& sends, bool endless) {
  const auto folder = status::UserFolder::open_own();
  if (!folder.ok()) return;
  const auto socket = status::StatusSocket::listen_in(*folder, {getpid(), 7});
  if (!socket.ok()) return;
  for (;;) {
    const int one = accept(socket->socket().get(), nullptr, nullptr);
    if (one < 0) usleep(1000);  // it does not block
    do {
      if (one >= 0 && send(one, sends.data(), sends.size(), MSG_NOSIGNAL) < 0) break;
    } while (endless && one >= 0);
    if (one >= 0) shutdown(one, SHUT_WR);
  }
}

struct StatusCommands : testing::Test {
  const test::TemporaryFolder folder;
  const test::WithEnvironment sockets{"RONDO_STATUS_DIR", folder.path() + "/status"};
  const test::WithEnvironment no_tcp{"NCCL_RAS_ADDR", "none"};

  // The job of the process in rondo ps --json; nothing: not listed.
  static std::optional<Json> listed(int pid) {
    const ShellResult shown = run("ps --json 2>/dev/null");
    if (shown.status != 0) return std::nullopt;
    const Json all = Json::parse(shown.text);
    for (const Json& job : all.at("jobs").elements())
      if (job.at("pid").number() == pid) return job;
    return std::nullopt;
  }
  static bool is_running(const std::optional<Json>& job) {
    return job && job->at("communicators").number() == 1 &&
           job->at("silent_pids").elements().empty();
  }
  // All commands that look at jobs. A crash is a status above 128, or a sanitizer's report.
  static void expect_no_crash(int pid) {
    const std::string files = "--chrome /dev/null --torch /tmp/no_such_folder/x";
    for (const std::string& words :
         {std::string("ps"), std::string("ps --json"), fmt::format("ps {}", pid),
          fmt::format("ps {} --json", pid), fmt::format("ps {} --hosts", pid),
          fmt::format("trace {}", pid), fmt::format("trace {} --json", pid),
          fmt::format("trace {} {}", pid, files)}) {
      const ShellResult shown = run(words);
      EXPECT_TRUE(shown.status == 0 || shown.status == 1) << words << '\n' << shown.text;
      EXPECT_EQ(shown.text.find("Sanitizer"), std::string::npos) << words << '\n' << shown.text;
      EXPECT_EQ(shown.text.find("runtime error"), std::string::npos) << words << '\n' << shown.text;
    }
  }
};

TEST_F(StatusCommands, NameAJobThatDoesNotAnswerAndShowTheOthers) {
  const Child silent(bench), running(bench);
  ASSERT_TRUE(eventually(
      [&] { return is_running(listed(silent.pid())) && is_running(listed(running.pid())); }));
  kill(silent.pid(), SIGSTOP);
  ShellResult shown;
  EXPECT_TRUE(eventually([&] {  // on a busy machine, the other one does not answer in time, too
    shown = run("ps");
    const auto sends = [&](const std::string& text) {
      return shown.text.find(text) != std::string::npos;
    };
    return sends(fmt::format("process {} does not answer", silent.pid())) &&
           !sends(fmt::format("process {} does not answer", running.pid())) &&
           sends(fmt::format("{:>8} ", running.pid()));
  })) << shown.text;
  EXPECT_EQ(shown.status, 0);
  const std::optional<Json> job = listed(silent.pid());
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->at("ranks_here").number(), 2);  // by its shared memory
  expect_no_crash(silent.pid());
  expect_no_crash(running.pid());
}

TEST_F(StatusCommands, OutliveAJobThatEnds) {
  Child dead(bench);
  const Child running(bench);
  ASSERT_TRUE(eventually(
      [&] { return is_running(listed(dead.pid())) && is_running(listed(running.pid())); }));
  const int pid = dead.pid();
  dead.end();  // its socket stays in the folder
  EXPECT_TRUE(eventually([&] { return is_running(listed(running.pid())); }));
  EXPECT_FALSE(listed(pid).has_value());
  expect_no_crash(pid);
}

TEST_F(StatusCommands, NameWhatAnswersNoStatusAndShowTheOthers) {
  const Child running(bench);
  ASSERT_TRUE(eventually([&] { return is_running(listed(running.pid())); }));
  for (const std::string& sends :
       {std::string("HTTP/1.1 200 OK\r\n\r\n"), std::string("{\"processes\": 7}\n"),
        std::string("[[[[[[[[{"), std::string("\x00\xff\xfe\x1b[2J", 8)}) {
    const Child other([&] { foreign(sends, false); });
    std::optional<Json> job;
    EXPECT_TRUE(eventually([&] {
      job = listed(other.pid());
      return job && is_running(listed(running.pid()));
    })) << sends;
    if (!job) continue;
    EXPECT_EQ(job->at("foreign_pids").elements().size(), 1u) << job->text(2);
    EXPECT_NE(
        run("ps").text.find(fmt::format("process {} answers with what is no status", other.pid())),
        std::string::npos);
    expect_no_crash(other.pid());
  }
  const Child endless([] { foreign(std::string(1 << 16, 'x'), true); });
  EXPECT_TRUE(eventually([&] { return is_running(listed(running.pid())); }));
  expect_no_crash(endless.pid());
}

}  // namespace
}  // namespace rondo
