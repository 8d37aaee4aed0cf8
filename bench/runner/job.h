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

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "topology/cpu_budget.h"

namespace rondo::runner {

// JobOutput: forwards the ranks' output, line by line, to our own stdout and stderr.
//
// Lines of different ranks never mix, nor do lines of stdout and stderr that are one pipe, up to
// 4096 bytes each. A line without an end is forwarded when its writer closes the pipe, or in
// pieces if it exceeds 64 KiB. Never blocks: if our reader is slow, up to 1 MiB per stream waits in
// memory; beyond that the ranks wait in their own write().
// Cost: one read and one write per burst of output.
class JobOutput {
 public:
  explicit JobOutput(bool prefix) : prefix_(prefix) {}

  // From now on the rank's lines, without prefix, also go to this file. A file that cannot be
  // written is reported once and left.
  void log(int rank, Fd file, std::string path);
  // Adds the reading end of a rank's pipe; `target` is 1 (stdout) or 2 (stderr).
  void add(int rank, int target, Fd pipe);

  // ask() adds what to poll for; pass the same list to serve() after poll().
  void ask(std::vector<pollfd>& polls) const;
  void serve(const std::vector<pollfd>& polls);
  // Forwards what the ranks have written so far, as far as our reader takes it now. Ends although a
  // rank goes on writing.
  void settle();

  bool sources_open() const;
  bool pending() const { return !waiting_[0].empty() || !waiting_[1].empty(); }
  // errno of the first failed write to our stdout or stderr, after which nothing is forwarded; 0:
  // none failed.
  int write_error() const { return write_error_; }
  void close_sources();

 private:
  struct Source {
    int rank;
    int target;
    Fd pipe;
    std::string partial;
  };

  void read_from(Source& source);
  void emit(const Source& source, std::string_view line);
  void append(int rank, std::string_view line);
  void write_to(int target);
  std::string& waiting(int target) { return waiting_[target - 1]; }
  const std::string& waiting(int target) const { return waiting_[target - 1]; }

  bool prefix_;
  int write_error_ = 0;
  struct Log {
    Fd file;
    std::string path;
  };
  std::vector<Log> logs_;  // [rank]; empty: none
  std::vector<Source> sources_;
  std::string waiting_[2];
};

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

// RONDO_SECRET if it is set, else a new random one; "" if there are no random bytes.
std::string secret_of_job();

}  // namespace rondo::runner
