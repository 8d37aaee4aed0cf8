// simulate_staged: what a staged call of a direct kernel takes (kernels/cuda/direct.h,
// staged_copy.h) on the GPUs of one host, whose ranks are processes.
//
// Every rank brings its blocks into staging, meets all others, does its share of the work over
// their staging, meets again and takes its result out. All ranks share sums and a broadcast, also
// those with a root: a rank reads its share of what others brought in and stores the result
// wherever it is wanted. Of other copies each rank reads what it receives. All CTAs of a rank work
// at once, as each has its own part of every block. Bytes that come and go pass the wires beside
// the work. Cost: some 100 ns for each pair of ranks.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

struct SimStagedCall {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  int root = 0;
  int ctas = 1;             // of a rank
  std::uint64_t count = 0;  // elements of a block
  std::uint64_t element_bytes = 4;
  VerbCost cost;  // of a CTA
};

// kInvalidArgument: fewer than two ranks, no CTA, a collective that has no staged kernel.
Result<SimResult> simulate_staged(const Machine& machine, const SimStagedCall& call);

}  // namespace rondo::sim
