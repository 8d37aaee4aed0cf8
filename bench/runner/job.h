// SPDX-License-Identifier: Apache-2.0
// run_job(): runs N processes of one program on this host, and supervises them until the last one
// has ended.
//
// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (a port
// that was free), RONDO_JOB (a random name of the job), RONDO_SECRET (random, unless it is set),
// its own process group, and standard input from /dev/null (rank 0 inherits ours if it is not a
// terminal).
//
// Guarantees: signals that end, stop or inform a program (INT TERM HUP QUIT USR1 USR2 WINCH TSTP
// CONT ALRM) reach every rank's process group. The first rank that fails ends the others (TERM,
// after the grace period KILL), unless keep_going. No process of the job outlives it: a guardian
// process between the caller and the ranks adopts and kills their remaining children. If caller,
// guardian or a rank is killed, even by SIGKILL, the others clean up.
// A rank starts no ranks, or a command that starts itself could do so without end: run_job()
// refuses where RONDO_JOB and RANK are set, or where mark_as_rank() was called.
// Cost: two forks and, unless passthrough, one copy of the output.
//
//   return run_job({.argv = {"./trainer", "--epochs", "3"}, .ranks = 4});
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/runner/guardian.h"

namespace rondo::runner {

// Returns the exit status of the first rank that failed (128 + signal if a signal ended it), 127 if
// the program cannot be started, 2 if this process is a rank itself, else 0. With keep_going, ranks
// ended by a signal count only if no rank returned 0 or failed by itself.
int run_job(const JobOptions& options);

// The path of this program; "rondo" if /proc/self/exe is not readable.
std::string own_program();

// The start of the command line of ranks that are this program. By the option its main() knows that
// it is a rank, and calls mark_as_rank(), even if it cannot read its environment.
inline constexpr std::string_view kRankOption = "--as-rank";
std::vector<std::string> own_ranks();
void mark_as_rank();

}  // namespace rondo::runner
