// One measurement of rondo tune: one collective, one way that is forced, N ranks, as a job of
// processes of this program (tune_rank.h). Cost: seconds; nothing of it remains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rondo::cli {

struct TuneRun {
  std::string collective, algorithm;
  std::string protocol{};  // "": all
  int ctas = 0;            // of a rank on a GPU; 0: as the planner likes
  int ranks = 2, hosts = 1;
  int lanes = 1;    // ranks of a process
  int devices = 0;  // GPUs that the ranks live on; 0: host memory
  // Where a peer has half of the ranks: variables for a shell, by which they meet (tune_peer.h).
  // Else several hosts are pretended, and talk over loopback.
  std::string meeting{};

  int processes_here() const { return ranks / lanes / (meeting.empty() ? 1 : 2); }
  std::string name() const;  // for errors
};

// What a run gives, by size.
struct MeasuredCall {
  TuneRun run;
  std::uint64_t bytes = 0, count = 0;  // as rondo bench counts them
  double us = 0;                       // a call
  double prior_us = 0;                 // what it would take by priors, by the ranks' own plan
};

struct TuneSizes {
  std::uint64_t max_bytes = 8 << 20;
  double seconds = 0.01;  // each
};

// A run that fails is an error that names it.
Result<std::vector<MeasuredCall>> measure_run(const TuneRun& run, const TuneSizes& sizes);

}  // namespace rondo::cli
