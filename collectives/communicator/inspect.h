// What the ranks of another process are doing, seen from outside: its communicators' shared memory
// is read through /proc, nothing is written and nobody is stopped.
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
  std::string name;  // as the program named it; may be empty
  int size = 0;
  std::vector<RankView> ranks;  // of this host
};

// Every communicator that the process has, in the order of its descriptors. Errors say what to do:
// there is no such process, it is another user's, it has no communicator.
Result<std::vector<CommunicatorView>> inspect_process(int pid);

// The process itself, or else the first of its descendants that has a communicator: a question
// about `rondo run` means its ranks. The process itself where none has.
int process_with_ranks(int pid);

// The first words of the process's command line, or "".
std::string command_of(int pid);

}  // namespace rondo
