// SPDX-License-Identifier: Apache-2.0
#include "bench/runner/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "bench/runner/guardian.h"
#include "bench/runner/rank_process.h"

namespace rondo::runner {
namespace {

constexpr int kRefused = 2;

bool marked_as_rank = false;

// Blocks signals during the job; the destructor restores the caller's mask.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held = forwarded_signals();
    sigaddset(&held, SIGCHLD);
    sigaddset(&held, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// The caller's side: forwards signals to the guardian until it ends.
int follow(int guardian) {
  sigset_t wanted = forwarded_signals();
  sigaddset(&wanted, SIGCHLD);
  for (;;) {
    int status = 0;
    const int ended = waitpid(guardian, &status, WNOHANG);
    if (ended == guardian || (ended < 0 && errno == ECHILD)) {
      // Finds processes only if the guardian was killed: its ranks died with it, and this process
      // inherited their children.
      kill_descendants();
      return status_of(status);
    }
    const int signal = sigwaitinfo(&wanted, nullptr);
    if (signal <= 0 || signal == SIGCHLD) continue;
    kill(guardian, signal);
    if (signal == SIGTSTP) raise(SIGSTOP);  // the shell gets its prompt; `fg` sends SIGCONT
  }
}

// Why this process may not start ranks; "": it may.
std::string why_no_ranks() {
  const char* const job = getenv("RONDO_JOB");
  const char* const rank = getenv("RANK");
  if (job != nullptr && rank != nullptr)
    return fmt::format(
        "this process is rank {} of the job RONDO_JOB={}, and ranks start no ranks; `env -u "
        "RONDO_JOB -u RANK` before this command starts a job of its own",
        rank, job);
  if (marked_as_rank)
    return fmt::format(
        "this process was started as a rank ({}), but its environment has no RANK: it starts no "
        "ranks; `rondo env` must list the variables that are set",
        kRankOption);
  return "";
}

}  // namespace

sigset_t forwarded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT, SIGALRM})
    sigaddset(&set, signal);
  return set;
}

std::string own_program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "rondo";
}

std::vector<std::string> own_ranks() { return {own_program(), std::string(kRankOption)}; }

void mark_as_rank() { marked_as_rank = true; }

int run_job(const JobOptions& options) {
  if (const std::string why = why_no_ranks(); !why.empty()) {
    fmt::print(stderr, "rondo run: {}\n", why);
    return kRefused;
  }
  int was_subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int result = 0;
  {
    const SignalsHeld held;
    fflush(nullptr);
    const int caller = getpid();
    const int guardian = fork();
    if (guardian == 0) _exit(guard(options, caller, held.before()));
    if (guardian < 0) {
      fmt::print(stderr, "rondo run: cannot start a process: {}\n", strerror(errno));
      result = 1;
    } else {
      result = follow(guardian);
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
  return result;
}

}  // namespace rondo::runner
