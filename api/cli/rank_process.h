// RankProcess: one rank of a job, started in its own process group and killed with its parent.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace rondo::cli {

struct RankStart {
  const std::vector<std::string>* argv;
  std::vector<std::string> environment;  // "NAME=value", added to ours
  bool keep_stdin = false;
  bool pipes = true;     // else the rank inherits our stdout and stderr
  sigset_t signal_mask;  // the program's
};

struct RankProcess {
  int pid = -1;
  Fd out, err;  // reading ends; none without pipes
};

// Does not fail for a program that cannot be executed: that rank says why on its stderr and exits
// with 127. pid is -1 (errno set) where there is no process or no pipe to be had.
RankProcess start_rank(const RankStart& start);

// Kills every process that has this one as its parent, also what their ends hand over to it, until
// none is left (PR_SET_CHILD_SUBREAPER makes that all descendants). Bounded to two seconds, because
// a process in an uninterruptible sleep dies later.
void kill_descendants();

}  // namespace rondo::cli
