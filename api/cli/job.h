// run_job(): N processes of one program on this host, supervised until the last one has ended.
//
// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (a port
// that was free), RONDO_JOB (a random name of the job) and RONDO_SECRET (random, unless it is set),
// its own process group, and standard input from /dev/null (rank 0 inherits one that is not a
// terminal).
//
// Guarantees: signals that end, stop or inform a program (INT TERM HUP QUIT USR1 USR2 WINCH TSTP
// CONT ALRM) reach every rank's process group. The first rank that fails ends the others (TERM,
// after the grace period KILL), unless keep_going. No process of the job outlives it: a guardian
// between the caller and the ranks adopts and kills what they leave behind, and whichever of
// caller, guardian and ranks is killed, even by SIGKILL, the others clean up.
// Cost: two forks and, unless passthrough, one copy of the output.
//
//   return run_job({.argv = {"./trainer", "--epochs", "3"}, .ranks = 4});
#pragma once

#include <string>
#include <vector>

namespace rondo::cli {

struct JobOptions {
  std::vector<std::string> argv;
  int ranks = 1;
  bool prefix = true;           // "[rank] " before every line
  bool passthrough = false;     // ranks write to our stdout and stderr themselves
  bool keep_going = false;      // a rank's failure does not end the others
  double patience_seconds = 0;  // between a rank's failure and TERM for the others
  double grace_seconds = 5;     // between TERM and KILL
  int master_port = 0;          // 0: one that is free
  bool quiet = false;           // speak of ranks that a signal ended, not of those that exited
};

// The job's exit status: of the first rank that failed (128 + signal where a signal ended it), 127
// where the program cannot be started, else 0. With keep_going: 0 where every rank that no signal
// killed returned 0, and there was one; else as above.
int run_job(const JobOptions& options);

// The path of this program; "rondo" where it is hidden.
std::string own_program();

// RONDO_SECRET as it is set, or a fresh one; "" where there are no random bytes.
std::string secret_of_job();

}  // namespace rondo::cli
