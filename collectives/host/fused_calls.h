// FusedCalls: small collectives of a group, run as one.
//
// Guarantees: all ranks fuse the same calls, or the ranks that did not are told of as different
// calls. Cost: no allocation once a group of that length was run.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "collectives/call.h"
#include "collectives/communicator/communicator.h"
#include "collectives/communicator/rank_context.h"
#include "kernels/host/segments.h"

namespace rondo {

class FusedCalls : RankPart {
 public:
  // last_plan: told what a fused call ran as.
  FusedCalls(RankContext& context, Communicator::Choice& last_plan)
      : RankPart(context), last_plan_(last_plan) {}

  // Keeps the collectives at the head of `calls` that run as one (messages between them run later
  // anyway); how many calls that covers, 1 where the first runs alone.
  std::size_t collect(std::span<const Call> calls);
  std::size_t collected() const { return segments_.size(); }
  // Runs what was collected, or one by one where the plan wants no fused call.
  using RunAlone = std::function<Status(const Call&)>;
  Status run(const Call& first, const RunAlone& run_alone);

 private:
  Communicator::Choice& last_plan_;
  std::vector<host::Segment> segments_;  // of the fused call in progress
};

}  // namespace rondo
