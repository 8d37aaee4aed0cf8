// SPDX-License-Identifier: Apache-2.0
// tune_rank(): one process of a rondo tune measurement: its ranks repeat one kind of call.
//
// Whole blocks of calls are timed, so that clock reads cost nothing. In host memory calls follow
// each other directly. On GPUs each call is waited for, because the planner counts from the launch
// until the end is noticed. The first process of each host writes the times.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::cli {

struct TuneRankOptions {
  std::string collective;  // name as in rondo bench
  int lanes = 1;           // ranks of this process; one thread drives them by groups
  int devices = 0;         // GPUs, assigned to the ranks round robin; 0: host memory
  std::uint64_t max_bytes = 0;
  double seconds = 0;  // per size
  std::string file;    // output: a line "bytes count us predicted" per size
};

// Returns the exit status; prints errors to stderr.
int tune_rank(const TuneRankOptions& options);

}  // namespace rondo::cli
