// SPDX-License-Identifier: Apache-2.0
// measure(): measures one side of one row (in place or not) on one thread's lanes: warm up, time,
// check.
//
// Each iteration reads the monotonic clock once, into an array allocated before. The reported time
// is that of the whole loop divided by its calls. All ranks start together: after a barrier of the
// team, then a barrier of the library.
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
  BenchThreads& team;
  int thread;
  std::span<const std::unique_ptr<Lane>> lanes;
};

struct Measured {
  std::vector<RankMeasurement> reports;  // by lane
  int iterations = 0;
};

// Errors are the library's, with the name of the call.
Result<Measured> measure(const Bench& bench, const Test& test, std::size_t bytes);

}  // namespace rondo::bench
