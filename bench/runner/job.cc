// SPDX-License-Identifier: Apache-2.0
#include "bench/runner/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/env.h"
#include "bench/runner/guardian.h"
#include "bench/runner/rank_process.h"

namespace rondo::runner {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::size_t kMaxWaiting = 1 << 20;
constexpr std::size_t kAtomicWrite = 4096;  // PIPE_BUF: a writable pipe accepts that much
constexpr int kRefused = 2;

bool marked_as_rank = false;

}  // namespace

void JobOutput::add(int rank, int target, Fd pipe) {
  sources_.push_back({rank, target, std::move(pipe), {}});
}

void JobOutput::log(int rank, Fd file, std::string path) {
  const auto index = static_cast<std::size_t>(rank);
  if (logs_.size() <= index) logs_.resize(index + 1);
  logs_[index] = {std::move(file), std::move(path)};
}

bool JobOutput::sources_open() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return !!s.pipe; });
}

void JobOutput::close_sources() {
  for (Source& source : sources_) {
    if (!source.partial.empty()) emit(source, source.partial);
    source.partial.clear();
    source.pipe.reset();
  }
}

void JobOutput::ask(std::vector<pollfd>& polls) const {
  for (const Source& source : sources_)
    if (source.pipe && waiting(source.target).size() < kMaxWaiting)
      polls.push_back({source.pipe.get(), POLLIN, 0});
  for (int target : {1, 2})
    if (!waiting(target).empty()) polls.push_back({target, POLLOUT, 0});
}

void JobOutput::serve(const std::vector<pollfd>& polls) {
  for (const pollfd& ready : polls) {
    if (ready.revents == 0) continue;
    if (ready.events == POLLOUT) {
      write_to(ready.fd);
      continue;
    }
    for (Source& source : sources_)
      if (source.pipe.get() == ready.fd) read_from(source);
  }
}

void JobOutput::settle() {
  for (int burst = 0; burst < 256; ++burst) {
    std::vector<pollfd> polls;
    ask(polls);
    if (poll(polls.data(), polls.size(), 0) <= 0) return;
    serve(polls);
  }
}

void JobOutput::read_from(Source& source) {
  char buffer[16 << 10];
  const ssize_t got = read(source.pipe.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    source.pipe.reset();
    if (!source.partial.empty()) emit(source, source.partial);
    source.partial.clear();
    return;
  }
  source.partial.append(buffer, static_cast<std::size_t>(got));
  std::size_t start = 0;
  for (std::size_t end; (end = source.partial.find('\n', start)) != std::string::npos;
       start = end + 1)
    emit(source, std::string_view(source.partial).substr(start, end - start));
  source.partial.erase(0, start);
  if (source.partial.size() > kLongestLine) {
    emit(source, source.partial);
    source.partial.clear();
  }
}

void JobOutput::append(int rank, std::string_view line) {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= logs_.size() || !logs_[index].file) return;
  const iovec parts[] = {{const_cast<char*>(line.data()), line.size()},
                         {const_cast<char*>("\n"), 1}};
  if (writev(logs_[index].file.get(), parts, 2) >= 0) return;
  fmt::print(stderr, "rondo run: {}: {}; the rest of rank {}'s output is not in it\n",
             logs_[index].path, strerror(errno), rank);
  logs_[index].file.reset();
}

void JobOutput::emit(const Source& source, std::string_view line) {
  append(source.rank, line);
  if (write_error_ != 0) return;
  std::string& out = waiting(source.target);
  if (prefix_) fmt::format_to(std::back_inserter(out), "[{}] ", source.rank);
  out.append(line);
  out.push_back('\n');
}

void JobOutput::write_to(int target) {
  std::string& out = waiting(target);
  // Whole lines: stdout and stderr may be one pipe, where no line may cut another.
  const std::size_t newline =
      out.size() <= kAtomicWrite ? std::string::npos : out.rfind('\n', kAtomicWrite - 1);
  const std::size_t size =
      newline == std::string::npos ? std::min(out.size(), kAtomicWrite) : newline + 1;
  const ssize_t put = write(target, out.data(), size);
  if (put > 0) {
    out.erase(0, static_cast<std::size_t>(put));
  } else if (put < 0 && errno != EINTR && errno != EAGAIN) {
    write_error_ = errno;
    out.clear();
  }
}

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

std::string secret_of_job() {
  if (const auto set = env::raw("RONDO_SECRET"); set && !set->empty()) return *set;
  unsigned char random[32];
  if (getrandom(random, sizeof random, 0) != sizeof random) return "";
  return fmt::format("{:02x}", fmt::join(random, ""));
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
