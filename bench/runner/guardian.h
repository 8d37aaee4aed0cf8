// SPDX-License-Identifier: Apache-2.0
// The guardian: the process between the caller of run_job() and the ranks. It starts the ranks,
// forwards signals and output, ends the job by the rules of job.h and leaves no process behind.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "topology/cpu_budget.h"

namespace rondo::runner {

struct JobOptions {
  std::vector<std::string> argv;
  int ranks = 1;
  bool prefix = true;           // "[rank] " before every line
  bool passthrough = false;     // ranks write directly to our stdout and stderr
  bool keep_going = false;      // a rank's failure does not end the others
  double patience_seconds = 0;  // between a rank's failure and TERM for the others
  double grace_seconds = 5;     // between TERM and KILL
  int master_port = 0;          // 0: a free one
  std::string log_folder;       // "": no log files; else it exists, and rank N writes N.log there
  std::vector<topology::CpuList> cpus;  // [rank]; empty: ranks are not bound
  bool quiet = false;                   // report ranks ended by a signal, not those that exited
};

// Signals that a job forwards. The caller blocks them (and SIGCHLD and SIGPIPE) before the fork.
sigset_t forwarded_signals();

// Runs in the forked child and returns the job's exit status. `caller` is the parent's process id,
// `program_mask` the signal mask that ranks start with.
int guard(const JobOptions& options, int caller, const sigset_t& program_mask);

}  // namespace rondo::runner
