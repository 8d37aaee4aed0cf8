// Whether a process stands still: stopped by a signal or a debugger, or its control group frozen.
//
// What cannot be seen (another PID namespace, a cgroup that is not mounted here) counts as running:
// these are for texts and for giving up early, nothing may depend on them. Cost: some files of
// /proc.
#pragma once

#include <cstdint>

#include "collectives/communicator/membership.h"
#include "collectives/watchdog/rank_report.h"
#include "kernels/host/host_rank.h"

namespace rondo {

// The number that the process behind a pidfd has here, as /proc counts; 0 where it has none here
// (it is in another PID namespace) or has ended.
int pid_of(int pidfd);

bool is_standing_still(int pid);

// Of a rank of this host, as far as this process can see. Costs a system call, or files of /proc.
RankReport::Condition condition_of(const Membership& members, const host::HostRank& host,
                                   int local);

// The number of the namespace in which this process's pids count; 0 where it cannot be told.
std::uint32_t pid_namespace();

}  // namespace rondo
