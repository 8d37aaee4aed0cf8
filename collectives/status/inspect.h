// SPDX-License-Identifier: Apache-2.0
// Shows what the ranks of processes are doing, from the words that they publish in shared memory:
// of another process through /proc, or of this process's communicators.
//
// Guarantees: writes nothing and stops no process. Each word is read whole, but several words
// together are not a consistent snapshot.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/faults/rank_report.h"
#include "collectives/status/job_view.h"
#include "collectives/status/watched_ranks.h"

namespace rondo {
namespace trace {
struct Culprit;
}

// `newest`: the newest call that any rank of the host has entered.
RankView rank_view(const RankWordsView& words, RankReport::Condition condition,
                   std::uint64_t newest);

// All communicators of the process, in the order of its file descriptors. Errors: the process does
// not exist, belongs to another user, or has no communicator.
Result<std::vector<CommunicatorView>> inspect_process(int pid);

// The process itself if it has a communicator, else its first descendant that has one, else the
// first of them whose ranks are joining, so that the pid of `rondo run` finds its ranks. The
// process itself if none has.
int process_with_ranks(int pid);

// Whether a process of this PID namespace runs.
RankReport::Condition condition_of(int pid);

// The user of the process; this user if it has ended.
uid_t owner_of_process(int pid);

// The process's command line, cut to 80 characters; "" if unknown. Program and script are shown
// without their folders, and an interpreter without its options: "python3 train.py --lr 3".
std::string command_of(int pid);
std::string command_text(std::string_view cmdline);  // words that end with NUL, as in /proc

// The ranks for which ranks of this host wait long, in the communicators of the process and in
// those of the processes that share one with it. For metrics.
std::vector<trace::Culprit> culprits_on_host(int pid);

}  // namespace rondo
