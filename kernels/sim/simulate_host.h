// SPDX-License-Identifier: Apache-2.0
// simulate_host: the time of a PeerMemory algorithm among ranks in host memory of one host, which
// may share cores. It runs in virtual time: no bytes move, only the cost of each verb counts.
//
// Calls are consecutive, as in a benchmark. The time is that of one call, from the end of the
// previous call to its own end, once that repeats. Verbs act as in kernels/host/staged_memory.h and
// line_memory.h, so the algorithm determines which rank may run ahead and when. Rounds are
// simulated until each adds the same time as the previous one (`extrapolated`). Not modelled:
// shared caches, and what the kernel's scheduler does besides giving a core to the next rank. Cost:
// about 200 ns per verb and peer, for 24 calls or more.
//
//   const Result<SimResult> one = simulate_host({.algorithm = Algorithm::kOneShot, ...});
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/sim/sim_host_call.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

struct HostLimits {
  std::uint64_t rounds = 0;  // number to simulate per call; 0: until they repeat
  int calls = 0;             // number to simulate, for their total time; 0: for the time of one
};

// kInvalidArgument: no PeerMemory algorithm for the call, or none that fits into lines; fewer than
// two ranks; no core. kInternalError: the ranks deadlock.
Result<SimResult> simulate_host(const SimHostCall& call, const HostLimits& limits = {});

}  // namespace rondo::sim
