// SPDX-License-Identifier: Apache-2.0
// start_rank(): starts one rank of a job in its own process group. The rank is killed when its
// parent dies.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "topology/cpu_budget.h"

namespace rondo::runner {

struct RankStart {
  const std::vector<std::string>* argv;
  std::vector<std::string> environment;  // "NAME=value", added to ours
  bool keep_stdin = false;
  bool pipes = true;                        // false: the rank inherits our stdout and stderr
  sigset_t signal_mask;                     // for the program
  const topology::CpuList* cpus = nullptr;  // that it may use; nullptr: ours
};

struct RankProcess {
  int pid = -1;
  Fd out, err;  // reading ends; none without pipes
};

// If the program cannot be executed, the call succeeds; the rank prints why to its stderr and exits
// with 127. If no process or pipe can be created, pid is -1 and errno is set.
RankProcess start_rank(const RankStart& start);

// Kills all children of this process, also those that it inherits when its children end, until none
// is left (with PR_SET_CHILD_SUBREAPER: all descendants). Takes at most two seconds: a process in
// an uninterruptible sleep dies later.
void kill_descendants();

// RONDO_SECRET if it is set, else a new random one; "" if there are no random bytes.
std::string secret_of_job();

}  // namespace rondo::runner
