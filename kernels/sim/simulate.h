// SPDX-License-Identifier: Apache-2.0
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

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "kernels/algorithms/table.h"
#include "kernels/primitives.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/sim_links.h"

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

// The number of rounds to start with, and the relative difference allowed between periods.
struct Evenness {
  std::uint64_t minimum = 4;
  double tolerance = 1e-3;
};

// Simulates more and more rounds of a call until equal numbers of rounds take equal time, then
// extrapolates the rest (`extrapolated`).
//
// `all`: the call's number of rounds. If the time never becomes even, all rounds are simulated:
// slow, but correct. Cost: three runs per doubling.
//
// simulate(rounds): simulates the first rounds and the incomplete one at the call's end.
// simulate_all(): simulates all.
template <class Simulate, class SimulateAll>
Result<SimResult> simulate_until_even(double all, const Evenness& wanted, const Simulate& simulate,
                                      const SimulateAll& simulate_all) {
  for (std::uint64_t rounds = wanted.minimum; static_cast<double>(2 * rounds) < all; rounds *= 2) {
    RONDO_TRY(const SimResult first, simulate(rounds));
    RONDO_TRY(const SimResult second, simulate(rounds + rounds / 2));
    RONDO_TRY(SimResult third, simulate(2 * rounds));
    const double early = second.ns - first.ns, late = third.ns - second.ns;
    if (std::abs(late - early) > wanted.tolerance * late) continue;
    // `late` is the time of rounds / 2 rounds.
    const auto simulated = static_cast<double>(2 * rounds);
    third.ns += 4 * late / simulated * (all - simulated);
    third.extrapolated = true;
    return third;
  }
  return simulate_all();
}

}  // namespace rondo::sim
