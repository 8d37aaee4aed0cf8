// SPDX-License-Identifier: Apache-2.0
// measure_run(): one measurement of rondo tune: one collective, one forced algorithm, N ranks, as a
// job of processes of this program (tune_rank()). Cost: seconds; leaves no files or processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rondo::cli {

struct TuneRun {
  std::string collective, algorithm;
  std::string protocol{};  // "": all
  int cma = 0;             // RONDO_CMA
  int ctas = 0;            // per rank on a GPU; 0: the planner's choice
  int ranks = 2, hosts = 1;
  int lanes = 1;    // ranks per process
  int devices = 0;  // GPUs of the ranks; 0: host memory
  // If a peer has half of the ranks: TunePeer::variables(). Empty: several hosts are simulated here
  // and communicate over loopback.
  std::string meeting{};

  int processes_here() const { return ranks / lanes / (meeting.empty() ? 1 : 2); }
  std::string name() const;  // for errors
};

// Result of a run for one size.
struct MeasuredCall {
  TuneRun run;
  std::uint64_t bytes = 0, count = 0;  // as counted by rondo bench
  double us = 0;                       // per call
  double prior_us = 0;                 // the ranks' own prediction, by priors
};

struct TuneSizes {
  std::uint64_t max_bytes = 8 << 20;
  double seconds = 0.01;  // per size
};

// If the run fails, the error names it.
Result<std::vector<MeasuredCall>> measure_run(const TuneRun& run, const TuneSizes& sizes);

// tune_rank(): one process of a rondo tune measurement: its ranks repeat one kind of call.
//
// Whole blocks of calls are timed, so that clock reads cost nothing. In host memory calls follow
// each other directly. On GPUs each call is waited for, because the planner counts from the launch
// until the end is noticed. The first process of each host writes the times.
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
