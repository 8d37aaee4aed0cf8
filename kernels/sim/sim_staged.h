// SPDX-License-Identifier: Apache-2.0
// simulate_staged: the time of a staged call of a direct kernel (kernels/cuda/direct.h,
// staged_copy.h) on the GPUs of one host, whose ranks are processes.
//
// Every rank copies its blocks into staging, has a barrier with all others, does its share of the
// work on their staging, has a second barrier, and copies its result out. Sums and broadcasts are
// shared by all ranks, also if they have a root: a rank reads its share of the inputs and stores
// the result in every rank that needs it. In other copies each rank reads what it receives. All
// CTAs of a rank work at once, each on its part of every block. Transfers use the wires in parallel
// with the work. Cost: about 100 ns per pair of ranks.
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
  int ctas = 1;             // per rank
  std::uint64_t count = 0;  // elements of a block
  std::uint64_t element_bytes = 4;
  VerbCost cost;  // per CTA
};

// kInvalidArgument: fewer than two ranks, no CTA, or a collective without a staged kernel.
Result<SimResult> simulate_staged(const Machine& machine, const SimStagedCall& call);

}  // namespace rondo::sim
