// SPDX-License-Identifier: Apache-2.0
// Asks processes of this host for the status of their jobs, for `rondo ps` and for tests.
//
// Guarantees: ends by the deadlines below also where processes are stopped; a job whose processes
// do not answer is read from its shared memory. Cost: a connection to each process that is asked.
//
//   RONDO_TRY(JobView job, ask_process(pid, true));
//   for (const ListedJob& job : list_jobs()) ...
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/status/job_view.h"

namespace rondo {

// What the process and the others of its host know of their job; all_hosts: also those of other
// hosts. A process that does not answer within 3 s, or 8 s with all_hosts, is read from /proc.
// Errors: inspect_process().
Result<JobView> ask_process(int pid, bool all_hosts);

// Processes of this user, and of this host, that have communicators in common or the same
// RONDO_JOB.
struct ListedJob {
  JobView view;              // of this host
  std::vector<int> silent;   // pids that did not answer within 1 s: stopped, or very busy
  std::vector<int> foreign;  // pids whose answer is no status: of another release, or no Rondo
};
Result<std::vector<ListedJob>> list_jobs();

}  // namespace rondo
