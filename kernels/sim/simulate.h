// simulate: what a call of ranks on GPUs takes on a machine, by its algorithm's own text in virtual
// time.
//
// All ranks begin at once, on idle wires. Rounds are played until each adds as much time as the one
// before; the rest are counted at that (`extrapolated`). Nothing of this machine's clock goes in:
// equal questions have equal answers everywhere. Cost: some 200 ns a message of every rank; 20 KiB
// a rank and stream.
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
  int slots = 4;            // of a connection
  VerbCost cost;
  std::vector<SimStream> streams;
};

struct SimResult {
  double ns = 0;
  bool extrapolated = false;
  int busiest_wire = -1;     // of the rounds that were played
  double busiest_share = 0;  // of the time
};

// Of a run that is over.
SimResult result_of(double ns, const Traffic& traffic);

struct SimLimits {
  std::uint64_t rounds = 0;  // to play of each stream; 0: until it repeats
};

// kInvalidArgument: no algorithm for the call, no ranks, a stream of other ranks than the call's.
// kInternalError: a deadlock of the ranks, which is an error of the algorithm.
Result<SimResult> simulate(const Machine& machine, const SimCall& call,
                           const SimLimits& limits = {});

}  // namespace rondo::sim
