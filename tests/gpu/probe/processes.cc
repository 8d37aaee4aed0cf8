// SPDX-License-Identifier: Apache-2.0
#include "processes.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "answer.h"

namespace probe {

void* share_memory(std::size_t bytes) {
  const int file = memfd_create("probe", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) give_up("memfd_create failed");
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) give_up("mmap of a memory file failed");
  close(file);
  return at;
}

void Meeting::meet(int count) {
  const int turn = over_.load();
  if (arrived_.fetch_add(1) + 1 == count) {
    arrived_.store(0);
    over_.fetch_add(1);
  }
  while (over_.load() == turn) usleep(50);
}

void fork_all(int count, void (*run)(int rank, void* context), void* context) {
  std::vector<pid_t> alive;
  const pid_t parent = getpid();
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      run(rank, context);
      _exit(0);
    }
    if (child < 0) give_up("fork failed");
    alive.push_back(child);
  }
  int failed = 0;
  while (!alive.empty()) {
    int status = 0;
    const pid_t over = waitpid(-1, &status, 0);
    if (over < 0) give_up("waitpid failed");
    alive.erase(std::remove(alive.begin(), alive.end(), over), alive.end());
    if (status == 0 || failed != 0) continue;
    failed = status;
    for (const pid_t other : alive) kill(other, SIGKILL);
  }
  if (failed == 0) return;
  if (WIFEXITED(failed) && WEXITSTATUS(failed) == kUnsupported) _exit(kUnsupported);
  give_up(WIFEXITED(failed) ? print("a process of the probe ended with %d", WEXITSTATUS(failed))
                            : print("signal %d ended a process of the probe", WTERMSIG(failed)));
}

}  // namespace probe
