// SPDX-License-Identifier: Apache-2.0
// simulate_multicast: the time of sums and copies inside the switch (NVLS,
// kernels/cuda/multicast.h), step by step as the kernel runs them, in virtual time.
//
// CTA c of every rank has a barrier with CTA c of all others between the steps. In one step it
// copies the next round into staging, lets the switch process the current round, and copies the
// last round out. A CTA's own work is sequential, with the times that shapes.h predicts; the wires
// work in parallel. What the switch sums leaves every rank once and arrives at one of them. Cost:
// about 20 ns per wire, round, rank and CTA.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

struct SimMulticastCall {
  Collective collective = Collective::kAllReduce;  // also all-gather, reduce-scatter
  int ranks = 2;
  int ctas = 1;
  std::uint64_t count = 0;      // elements of a block
  std::uint64_t per_round = 1;  // elements of a block, per CTA
  std::uint64_t grain = 1;      // elements
  std::uint64_t element_bytes = 4;
  MulticastCost cost;
};

// Routes between ranks must begin with the wire to the switch and end with the wire from it.
// kInvalidArgument: another collective, or fewer than two ranks.
Result<SimResult> simulate_multicast(const Machine& machine, const SimMulticastCall& call,
                                     const SimLimits& limits = {});

}  // namespace rondo::sim
