// MessageCalls: sends and receives of a rank, and the collectives that are made of them.
//
// Those to itself are paired up, the k-th send with the k-th receive; all others move at once.
// Guarantees: messages that make up a collective are announced as such, so that ranks that call
// something else are found, and every fault names the collective. Cost: no allocation once a group
// of that length was run.
#pragma once

#include <span>
#include <vector>

#include "collectives/call.h"
#include "collectives/communicator/rank_context.h"
#include "kernels/host/point_to_point.h"

namespace rondo {

class MessageCalls : RankPart {
 public:
  explicit MessageCalls(RankContext& context) : RankPart(context) {}

  // The sends and receives among `calls`. whole: the collective that they make up, if they do.
  Status run(std::span<const Call> calls, const CallRecord* whole = nullptr);
  Status run_announced(std::span<const Call> messages, const CallRecord& whole);
  // A collective without a text over connections.
  Status run_collective(const Call& call);

 private:
  std::vector<host::Message> messages_;  // of the group in progress
};

}  // namespace rondo
