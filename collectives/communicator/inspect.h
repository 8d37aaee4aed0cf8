// Shows what the ranks of another process are doing. Reads the shared memory of its communicators
// through /proc. Guarantees: writes nothing and stops no process.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rondo {

struct RankView {
  int rank = -1;
  int pid = 0;
  std::string doing;  // "in call 3, AllReduce(...), step 7, waits for rank 1"
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
