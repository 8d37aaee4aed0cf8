// SPDX-License-Identifier: Apache-2.0
// Calls of a group that may run as one: the largest that qualify, and the smallest that do not.
#include "collectives/planner/planner.h"

#include <gtest/gtest.h>

#include "collectives/planner/tuning.h"
#include "tests/unit/collectives/planner/host_calls.h"

namespace rondo {
namespace {

constexpr int kRanks = 8;
constexpr std::uint64_t kLimit = tuning::kFuseBelow;

struct Limit {
  Collective collective;
  std::uint64_t bytes;  // bytes of the call's count; the first size that is too large
};

TEST(Fusion, EndsWhereTheLargerSideOfACallReachesTheLimit) {
  const Limit limits[] = {{Collective::kAllReduce, kLimit},
                          {Collective::kBroadcast, kLimit},
                          {Collective::kReduce, kLimit},
                          {Collective::kAllGather, kLimit / kRanks},
                          {Collective::kReduceScatter, kLimit / kRanks},
                          {Collective::kAllToAll, kLimit / kRanks},
                          {Collective::kGather, kLimit / kRanks},
                          {Collective::kScatter, kLimit / kRanks}};
  const PlanFacts facts = test::facts_on(kRanks);
  for (const Limit& limit : limits) {
    EXPECT_TRUE(is_fusable(facts, test::call_of_bytes(limit.collective, limit.bytes - 4)))
        << name(limit.collective);
    EXPECT_FALSE(is_fusable(facts, test::call_of_bytes(limit.collective, limit.bytes)))
        << name(limit.collective);
  }
}

TEST(Fusion, LeavesOutCallsOfOneRankOfHostsAndOfNothing) {
  const CallRecord small = test::call_of_bytes(Collective::kAllReduce, 4);
  EXPECT_TRUE(is_fusable(test::facts_on(2), small));
  EXPECT_FALSE(is_fusable(test::facts_on(1), small));
  EXPECT_FALSE(is_fusable(test::facts_on(4, 2), small));
  EXPECT_FALSE(is_fusable(test::facts_on(2), test::call_of_bytes(Collective::kAllReduce, 0)));
  // A count whose bytes overflow 64 bits is not small.
  EXPECT_FALSE(is_fusable(test::facts_on(2), {std::uint64_t{1} << 62, Collective::kAllReduce,
                                              DataType::kFloat32, RedOp::kSum, 0, -1}));
}

}  // namespace
}  // namespace rondo
