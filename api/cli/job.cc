#include "api/cli/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "api/cli/guardian.h"
#include "api/cli/rank_process.h"
#include "base/env.h"

namespace rondo::cli {
namespace {

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

std::string secret_of_job() {
  if (const auto set = env::raw("RONDO_SECRET"); set && !set->empty()) return *set;
  unsigned char random[32];
  if (getrandom(random, sizeof random, 0) != sizeof random) return "";
  return fmt::format("{:02x}", fmt::join(random, ""));
}

int run_job(const JobOptions& options) {
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

}  // namespace rondo::cli
