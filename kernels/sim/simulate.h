// simulate: the time of a call of ranks on GPUs on a machine. It runs the call's own algorithm in
// virtual time.
//
// All ranks begin at once, on idle wires. Rounds are simulated until each adds the same time as the
// previous one; the rest is extrapolated (`extrapolated`). The result does not depend on the clock
// of the machine that simulates: equal input gives equal results everywhere. Cost: about 200 ns per
// message of every rank; 20 KiB per rank and stream.
//
//   const Result<SimResult> result = simulate(machine, {.algorithm = Algorithm::kRing, ...});
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "kernels/algorithms/table.h"
#include "kernels/primitives.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/sim_stream.h"
#include "kernels/sim/traffic.h"

namespace rondo::sim {

struct SimCall {
  Algorithm algorithm = Algorithm::kRing;
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  int root = 0;
  std::uint64_t element_bytes = 4;
  std::uint64_t grain = 1;  // elements
  int slots = 4;            // per connection
  VerbCost cost;
  std::vector<SimStream> streams;
};

struct SimResult {
  double ns = 0;
  bool extrapolated = false;
  int busiest_wire = -1;     // in the simulated rounds; -1: none
  double busiest_share = 0;  // fraction of the time
};

// The result of a finished run.
SimResult result_of(double ns, const Traffic& traffic);

struct SimLimits {
  std::uint64_t rounds = 0;  // number to simulate per stream; 0: until they repeat
};

// kInvalidArgument: no algorithm for the call, no ranks, or a stream with other ranks than the
// call. kInternalError: the ranks deadlock, which is an error of the algorithm.
Result<SimResult> simulate(const Machine& machine, const SimCall& call,
                           const SimLimits& limits = {});

}  // namespace rondo::sim
