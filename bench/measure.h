// measure(): one side of one row on one thread's lanes: warm up, time, check.
//
// Per iteration one reading of the monotonic clock into an array that was allocated before; the
// time that is reported is that of the whole loop divided by its calls. All ranks start together: a
// meeting of the team, then a barrier of the library itself.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "bench/lane.h"
#include "bench/results.h"
#include "bench/team.h"

namespace rondo::bench {

struct Bench {
  const Options& options;
  ThreadTeam& team;
  int thread;
  std::span<const std::unique_ptr<Lane>> lanes;
};

struct Measured {
  std::vector<RankReport> reports;  // by lane
  int iterations = 0;
};

// An error is the library's, with what was called.
Result<Measured> measure(const Bench& bench, const Test& test, std::size_t bytes);

}  // namespace rondo::bench
