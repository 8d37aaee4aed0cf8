// SPDX-License-Identifier: Apache-2.0
// measure_run(): one measurement of rondo tune: one collective, one forced algorithm, N ranks, as a
// job of processes of this program (tune_rank.h). Cost: seconds; leaves no files or processes.
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

}  // namespace rondo::cli
