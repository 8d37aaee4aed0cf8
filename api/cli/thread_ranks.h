// run_threads(): N ranks of a program as threads of this process. The program is a shared object
// (cc -shared -fPIC program.c) whose main() is one rank; every thread calls it, with RANK,
// LOCAL_RANK and the rest of its own: getenv() of this command answers each thread apart.
//
// Ranks of one process reach each other's buffers, so nothing is copied twice. Global variables of
// the program are shared by its ranks; exit() ends all of them. Output has no prefixes. The first
// rank whose main() returns something else than 0 ends the process with that.
#pragma once

#include <string>
#include <vector>

namespace rondo::cli {

struct ThreadJob {
  std::vector<std::string> argv;
  int ranks = 1;
  int master_port = 0;  // 0: one that is free
  bool keep_going = false;
};

// The exit status; 127 where the program cannot be loaded (said on stderr).
int run_threads(const ThreadJob& job);

}  // namespace rondo::cli
