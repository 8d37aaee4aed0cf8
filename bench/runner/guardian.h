// SPDX-License-Identifier: Apache-2.0
// The guardian: the process between the caller of run_job() and the ranks. It starts the ranks,
// forwards signals and output, ends the job by the rules of job.h and leaves no process behind.
#pragma once

#include <signal.h>

#include "bench/runner/job.h"

namespace rondo::runner {

// Signals that a job forwards. The caller blocks them (and SIGCHLD and SIGPIPE) before the fork.
sigset_t forwarded_signals();

// Runs in the forked child and returns the job's exit status. `caller` is the parent's process id,
// `program_mask` the signal mask that ranks start with.
int guard(const JobOptions& options, int caller, const sigset_t& program_mask);

}  // namespace rondo::runner
