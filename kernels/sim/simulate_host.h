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
#include "kernels/algorithms/table.h"
#include "kernels/primitives.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

struct HostVerbCost {  // ns
  double call = 0;     // per call, before data moves
  double meet = 0;     // until a rank on another core sees a publication
  double peer = 0;     // reading a peer's line or step
  double spin = 0;     // wait of a rank before it yields its core
  double yield = 0;    // then, until the next rank runs
  double copy = 0;     // per byte
  double sum = 0;      // per byte of a peer
  double memory = 0;   // per call of a rank, for data beyond the caches
};

// Location of a rank's data for peers: beside its announcement, copied to staging, or in its own
// buffers.
enum class HostPath : std::uint8_t { kLines, kStaging, kBuffers };

struct SimHostCall {
  Algorithm algorithm = Algorithm::kTwoShot;
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  int cores = 2;  // rank r is on core r modulo cores
  int root = 0;
  bool roots_in_turn = false;  // the next call's root is the next rank
  Rounds rounds{};
  std::uint64_t element_bytes = 4;
  HostPath place = HostPath::kStaging;
  int slot_parts = 1;     // parts of a slot, which calls use in turn
  bool in_place = false;  // a rank's own block is already in its output
  HostVerbCost cost;
};

struct HostLimits {
  std::uint64_t rounds = 0;  // number to simulate per call; 0: until they repeat
  int calls = 0;             // number to simulate, for their total time; 0: for the time of one
};

// kInvalidArgument: no PeerMemory algorithm for the call, or none that fits into lines; fewer than
// two ranks; no core. kInternalError: the ranks deadlock.
Result<SimResult> simulate_host(const SimHostCall& call, const HostLimits& limits = {});

}  // namespace rondo::sim
