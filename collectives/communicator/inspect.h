// Shows what the ranks of another process are doing. Reads the shared memory of its communicators
// through /proc. Guarantees: writes nothing and stops no process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rondo {

struct RankView {
  int rank = -1;  // -1: a place whose rank has not joined
  int pid = 0;
  std::uint64_t call = 0;      // newest call that it has entered; 0: none
  std::uint64_t finished = 0;  // newest call that it has finished
  std::uint64_t step = 0;
  int waits_for = -1;  // a rank
  bool faulted = false;
  const char* state = "running";  // or not_joined, left, ended, stopped, elsewhere
  std::string doing;              // "in call 3, AllReduce(...), step 7, waits for rank 1"
};

struct CommunicatorView {
  std::string name;  // given by the program; may be empty
  int size = 0;
  std::vector<RankView> ranks;  // only ranks of this host
};

// All communicators of the process, in the order of its file descriptors. Errors: the process does
// not exist, belongs to another user, or has no communicator.
Result<std::vector<CommunicatorView>> inspect_process(int pid);

// The process itself if it has a communicator, else its first descendant that has one, so that the
// pid of `rondo run` finds its ranks. The process itself if none has.
int process_with_ranks(int pid);

// The process's command line, cut to 80 characters; "" if unknown.
std::string command_of(int pid);

}  // namespace rondo
