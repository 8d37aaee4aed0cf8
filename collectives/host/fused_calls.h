// SPDX-License-Identifier: Apache-2.0
// FusedCalls: runs small collectives of a group as one.
//
// Guarantees: all ranks fuse the same calls; a rank that does not is reported as making different
// calls. Cost: no allocation after the first group of the same length.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/host/verified_calls.h"
#include "collectives/planner/recent_plans.h"
#include "collectives/rank/rank_context.h"
#include "kernels/host/segments.h"

namespace rondo {

class FusedCalls : RankPart {
 public:
  // last_plan: set to the plan of a fused call.
  FusedCalls(RankContext& context, LastPlan& last_plan, VerifiedCalls& verified)
      : RankPart(context), last_plan_(last_plan), verified_(verified) {}

  // Keeps the collectives at the head of `calls` that run as one; messages between them run later
  // in any case. Returns the number of calls covered; 1 if the first call runs alone.
  std::size_t collect(std::span<const Call> calls);
  std::size_t collected() const { return segments_.size(); }
  // Runs the collected calls as one, or one by one if the plan allows no fused call.
  using RunAlone = std::function<Status(const Call&)>;
  Status run(const RunAlone& run_alone);

 private:
  LastPlan& last_plan_;
  VerifiedCalls& verified_;
  RecentPlans<Plan> plans_;              // by the records of fused calls
  std::span<const Call> covered_;        // by the newest collect()
  std::vector<host::Segment> segments_;  // segments of the fused call in progress
};

}  // namespace rondo
