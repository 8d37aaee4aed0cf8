// SPDX-License-Identifier: Apache-2.0
// Chunks and non-temporal stores depend only on the cache sizes of the topology.
#include <gtest/gtest.h>

#include "collectives/planner/planner.h"
#include "collectives/planner/tuning.h"

namespace rondo {
namespace {

PlanFacts facts_with(std::uint64_t core_cache, std::uint64_t shared_cache, int ranks = 2) {
  PlanFacts facts;
  facts.ranks = facts.largest_host = facts.rails = ranks;
  facts.slot_bytes = tuning::kPlannedSlotBytes;
  facts.connection_slot_bytes = tuning::connection_slot_bytes(2);
  facts.core_cache_bytes = core_cache;
  facts.shared_cache_bytes = shared_cache;
  return facts;
}

Plan plan_of(const PlanFacts& facts, std::uint64_t bytes) {
  return *make_plan(facts,
                    {bytes / 4, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1});
}

struct Machine {
  std::uint64_t core_cache, shared_cache;
  std::uint64_t round, streams_from;  // bytes
};
constexpr std::uint64_t kKi = 1 << 10, kMi = 1 << 20;
constexpr Machine kMachines[] = {
    {1 * kMi, 32 * kMi, 512 * kKi, 16 * kMi},  // where the constants were measured
    {0, 0, 512 * kKi, 16 * kMi},               // no known cache
    {512 * kKi, 16 * kMi, 256 * kKi, 8 * kMi},
    {256 * kKi, 8 * kMi, 128 * kKi, 4 * kMi},
    {1280 * kKi, 54 * kMi, 512 * kKi, 27 * kMi},     // not a power of two
    {2 * kMi, 105 * kMi, 512 * kKi, 105 * kMi / 2},  // limited by the size of a slot
    {64 * kKi, 1 * kMi, 64 * kKi, 1 * kMi},          // tiny: a message is still worth a barrier
    {4 * kMi, 0, 512 * kKi, 16 * kMi},               // no shared cache
};

TEST(PlannerCaches, DecideTheBytesOfARound) {
  for (const Machine& m : kMachines) {
    const Plan plan = plan_of(facts_with(m.core_cache, m.shared_cache), 8 * kMi);
    EXPECT_EQ(plan.rounds.per_round * 4, m.round) << "L2 of " << m.core_cache;
  }
}

TEST(PlannerCaches, DecideFromWhereStoresPassThem) {
  for (const Machine& m : kMachines) {
    const PlanFacts facts = facts_with(m.core_cache, m.shared_cache);
    EXPECT_FALSE(plan_of(facts, m.streams_from - 4).stream_stores) << m.shared_cache;
    EXPECT_TRUE(plan_of(facts, m.streams_from).stream_stores) << m.shared_cache;
  }
}

// The limit applies to the bytes that all ranks write together.
TEST(PlannerCaches, FillFromFewerBytesWhereMoreRanksWrite) {
  const struct {
    int ranks;
    std::uint64_t from;
  } kTeams[] = {{2, 16 * kMi}, {4, 8 * kMi}, {8, 4 * kMi}, {16, 2 * kMi}, {64, 1 * kMi}};
  for (const auto& [ranks, from] : kTeams) {
    const PlanFacts facts = facts_with(1 * kMi, 32 * kMi, ranks);
    EXPECT_FALSE(plan_of(facts, from - 4).stream_stores) << ranks;
    EXPECT_TRUE(plan_of(facts, from).stream_stores) << ranks;
  }
}

}  // namespace
}  // namespace rondo
