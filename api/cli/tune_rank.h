// One process of what rondo tune measures: its ranks make one kind of call again and again.
//
// Times are of blocks of calls, so that reading the clock costs nothing. In host memory calls
// follow each other; on GPUs each is waited for, as the planner counts them: from the launch until
// its end was noticed. The first process of each host writes them.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::cli {

struct TuneRankOptions {
  std::string collective;  // by bench's name
  int lanes = 1;           // ranks of this process, which one thread drives by groups
  int devices = 0;         // GPUs that ranks live on, dealt out in turn; 0: host memory
  std::uint64_t max_bytes = 0;
  double seconds = 0;  // for each size
  std::string file;    // where a line "bytes count us predicted" for each size goes
};

// The exit status; errors go to stderr.
int tune_rank(const TuneRankOptions& options);

}  // namespace rondo::cli
