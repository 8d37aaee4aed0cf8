// SPDX-License-Identifier: Apache-2.0
// run_threads(): runs N ranks of a program as threads of this process. The program is a shared
// object (cc -shared -fPIC program.c) whose main() is one rank. Every thread calls main(), with its
// own RANK, LOCAL_RANK and so on: this command's getenv() returns the calling thread's values.
//
// Ranks of one process can access each other's buffers, so nothing is copied twice. Ranks share the
// program's global variables; exit() ends all ranks. Output has no prefixes. If main() of a rank
// does not return 0, the process exits with that status, unless keep_going.
#pragma once

#include <string>
#include <vector>

namespace rondo::cli {

struct ThreadJob {
  std::vector<std::string> argv;
  int ranks = 1;
  int master_port = 0;  // 0: a free one
  bool keep_going = false;
};

// Returns the exit status; 127 if the program cannot be loaded (reason on stderr).
int run_threads(const ThreadJob& job);

}  // namespace rondo::cli
