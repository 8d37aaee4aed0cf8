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

// simulate_staged: the time of a staged call of a direct kernel (kernels/cuda/direct.h,
// staged_copy.h) on the GPUs of one host, whose ranks are processes.
//
// Every rank copies its blocks into staging, has a barrier with all others, does its share of the
// work on their staging, has a second barrier, and copies its result out. Sums and broadcasts are
// shared by all ranks, also if they have a root: a rank reads its share of the inputs and stores
// the result in every rank that needs it. In other copies each rank reads what it receives. All
// CTAs of a rank work at once, each on its part of every block. Transfers use the wires in parallel
// with the work. Cost: about 100 ns per pair of ranks.
struct SimStagedCall {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  int root = 0;
  int ctas = 1;             // per rank
  std::uint64_t count = 0;  // elements of a block
  std::uint64_t piece = 0;  // maximum that staging has room for; the others follow. 0: all
  std::uint64_t element_bytes = 4;
  VerbCost cost;  // per CTA
};

// kInvalidArgument: fewer than two ranks, no CTA, or a collective without a staged kernel.
Result<SimResult> simulate_staged(const Machine& machine, const SimStagedCall& call);

}  // namespace rondo::sim
