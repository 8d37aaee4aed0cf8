// SPDX-License-Identifier: Apache-2.0
#include "bench/runner/rank_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/env.h"

namespace rondo::runner {
namespace {

constexpr int kCannotStart = 127;

// The kernel refuses only CPUs that have gone offline since they were dealt.
void use_cpus(const topology::CpuList& cpus) {
  const auto count = static_cast<std::size_t>(topology::kMaxCpu) + 1;
  cpu_set_t* const set = CPU_ALLOC(count);
  if (set == nullptr) return;
  CPU_ZERO_S(CPU_ALLOC_SIZE(count), set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), CPU_ALLOC_SIZE(count), set);
  (void)sched_setaffinity(0, CPU_ALLOC_SIZE(count), set);
  CPU_FREE(set);
}

// Runs in the child after fork.
[[noreturn]] void become_rank(const RankStart& start, int parent, int out, int err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);  // the parent died before the line above
  if (!start.keep_stdin) {
    const int null = open("/dev/null", O_RDONLY);
    if (null > 0) dup2(null, 0), close(null);
  }
  if (out >= 0) dup2(out, 1);
  if (err >= 0) dup2(err, 2);
  for (const std::string& variable : start.environment) {
    const std::size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  if (start.cpus != nullptr) use_cpus(*start.cpus);
  std::vector<char*> argv;
  for (const std::string& argument : *start.argv)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  signal(SIGPIPE, SIG_DFL);
  // Without pipes a rank writes to the terminal from a background group; it must not be stopped.
  if (start.pipes) signal(SIGTTOU, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &start.signal_mask, nullptr);
  execvp(argv[0], argv.data());
  const char* reason = strerror(errno);
  dprintf(2, "cannot start '%s': %s\n", argv[0], reason);
  _exit(kCannotStart);
}

int parent_of(int pid) {
  char path[32], line[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = read(fd, line, sizeof line - 1);
  close(fd);
  if (got <= 0) return -1;
  line[got] = '\0';
  const char* after_name = strrchr(line, ')');  // the name can contain any characters
  int parent = -1;
  if (after_name == nullptr || sscanf(after_name + 1, " %*c %d", &parent) != 1) return -1;
  return parent;
}

void kill_children() {
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return;
  const int self = getpid();
  while (const dirent* entry = readdir(processes)) {
    const int pid = atoi(entry->d_name);
    if (pid > 0 && parent_of(pid) == self) kill(pid, SIGKILL);
  }
  closedir(processes);
}

}  // namespace

RankProcess start_rank(const RankStart& start) {
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  if (start.pipes) {
    if (pipe2(out, O_CLOEXEC) != 0) return {};
    if (pipe2(err, O_CLOEXEC) != 0) {
      const int reason = errno;
      close(out[0]), close(out[1]);
      errno = reason;
      return {};
    }
  }
  RankProcess rank{-1, Fd(out[0]), Fd(err[0])};
  const Fd out_end(out[1]), err_end(err[1]);
  const int parent = getpid();
  rank.pid = fork();
  if (rank.pid == 0) become_rank(start, parent, out_end.get(), err_end.get());
  // Parent and child both set the group, because either can run first.
  if (rank.pid > 0) setpgid(rank.pid, rank.pid);
  return rank;
}

void kill_descendants() {
  for (int round = 0; round < 200; ++round) {
    int ended;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return;
    kill_children();
    const timespec pause{0, round < 10 ? 1'000'000 : 10'000'000};
    nanosleep(&pause, nullptr);
  }
}

std::string secret_of_job() {
  if (const auto set = env::raw("RONDO_SECRET"); set && !set->empty()) return *set;
  unsigned char random[32];
  if (getrandom(random, sizeof random, 0) != sizeof random) return "";
  return fmt::format("{:02x}", fmt::join(random, ""));
}

}  // namespace rondo::runner
