// SPDX-License-Identifier: Apache-2.0
// Host-memory calls for tests of plans and costs. The machine has 1 MiB of cache per core and 32
// MiB for all cores.
#pragma once

#include <cstdint>

#include "collectives/planner/planner.h"

namespace rondo::test {

// Ranks in blocks on equal hosts, one core per rank.
inline PlanFacts facts_on(int ranks, int hosts = 1) {
  PlanFacts facts;
  facts.ranks = ranks;
  facts.hosts = hosts;
  facts.rails = ranks / hosts;
  facts.largest_host = (ranks + hosts - 1) / hosts;
  facts.slot_bytes = 512 << 10;
  facts.connection_slot_bytes = facts.link_slot_bytes = 128 << 10;
  facts.core_cache_bytes = 1 << 20;
  facts.shared_cache_bytes = 32 << 20;
  return facts;
}

// Sums of float32, rooted at rank 0.
inline CallRecord call_of_bytes(Collective collective, std::uint64_t bytes) {
  return {bytes / 4,   collective, DataType::kFloat32,
          RedOp::kSum, 0,          is_rooted(collective) ? 0 : -1};
}

}  // namespace rondo::test
