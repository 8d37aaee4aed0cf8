// simulate_multicast: what sums and copies inside the switch (NVLS, kernels/cuda/multicast.h) take,
// step by step as its kernel does them, in virtual time.
//
// CTA c of every rank meets CTA c of all others between the steps. In a step it brings the next
// round into staging, lets the switch do this one, takes the last one out. A CTA's works follow
// each other, as shapes.h predicts them; the wires are busy beside them. What the switch sums
// leaves every rank once, and comes to one of them. Cost: some 20 ns a wire, round, rank and CTA.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

struct SimMulticastCall {
  Collective collective = Collective::kAllReduce;  // all-gather, reduce-scatter
  int ranks = 2;
  int ctas = 1;
  std::uint64_t count = 0;      // elements of a block
  std::uint64_t per_round = 1;  // elements of a block, of a CTA
  std::uint64_t grain = 1;      // elements
  std::uint64_t element_bytes = 4;
  MulticastCost cost;
};

// Routes between ranks must begin with the wire to the switch and end with that from it.
// kInvalidArgument: another collective, fewer than two ranks.
Result<SimResult> simulate_multicast(const Machine& machine, const SimMulticastCall& call,
                                     const SimLimits& limits = {});

}  // namespace rondo::sim
