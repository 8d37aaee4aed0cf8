// simulate_host: what a text over peers' memory takes ranks in host memory of one host, which may
// share cores, in virtual time: no bytes, only what each verb costs.
//
// Calls follow each other, as in a benchmark, and the time is of one of them: from the end of one
// to the end of the next, once that repeats. Verbs do what kernels/host/staged_memory.h and
// line_memory.h do: who may run ahead of whom, and when, follows from the text. Rounds are played
// until each adds as much as the one before (`extrapolated`). Not known: caches that ranks share,
// and what the kernel's scheduler does beside giving a core to the next rank. Cost: some 200 ns a
// verb and peer, for 24 calls or more.
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
  double call = 0;     // of a call, before anything moves
  double meet = 0;     // until a rank on another core sees what was published
  double peer = 0;     // to read a peer's line or step
  double spin = 0;     // so long a rank waits before it gives its core away,
  double yield = 0;    // and so long until the next rank has it: together a turn
  double copy = 0;     // a byte
  double sum = 0;      // a byte of a peer's
  double memory = 0;   // of a rank's whole call, for what the caches have no room for
};

// Where peers find a rank's data: beside its announcement, copied to staging, in its own buffers.
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
  bool in_place = false;  // a rank's own block lies in its output already
  HostVerbCost cost;
};

struct HostLimits {
  std::uint64_t rounds = 0;  // of a call, to play; 0: until they repeat
  int calls = 0;             // to play, all of which are the time; 0: one, once they repeat
};

// kInvalidArgument: no algorithm over peers' memory for the call, or none that fits into lines;
// fewer than two ranks; no core. kInternalError: a deadlock of the ranks.
Result<SimResult> simulate_host(const SimHostCall& call, const HostLimits& limits = {});

}  // namespace rondo::sim
