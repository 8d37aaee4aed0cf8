// SPDX-License-Identifier: Apache-2.0
// SimHostCall: a call among simulated ranks in host memory of one host, and what its verbs cost.
#pragma once

#include <cstdint>

#include "kernels/algorithms/table.h"
#include "kernels/primitives.h"

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

}  // namespace rondo::sim
