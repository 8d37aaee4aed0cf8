// SPDX-License-Identifier: Apache-2.0
// Detects whether a process is stopped: by a signal, by a debugger, or because its control group is
// frozen.
//
// A state that cannot be seen (another PID namespace, a cgroup that is not mounted here) counts as
// running: use the result only for messages and to give up early. Cost: reads some files of /proc.
#pragma once

#include <cstdint>

#include "collectives/context/rank_placement.h"
#include "collectives/faults/rank_report.h"
#include "kernels/host/host_rank.h"

namespace rondo {

// The process id behind a pidfd, as /proc here shows it; 0 if it has none here (another PID
// namespace) or the process has ended.
int pid_of(int pidfd);

bool is_standing_still(int pid);

// Also true for a process that its parent has not reaped yet.
bool has_ended(int pid);

// State of a rank of this host, as far as this process can see. Costs a system call, or reads of
// /proc.
RankReport::Condition condition_of(const Membership& members, const host::HostRank& host,
                                   int local);

// Inode number of this process's PID namespace; 0 if unknown.
std::uint32_t pid_namespace();

}  // namespace rondo
