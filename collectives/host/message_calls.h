// SPDX-License-Identifier: Apache-2.0
// MessageCalls: sends and receives of a rank, and the collectives that consist of them.
//
// A rank's messages to itself are paired, the k-th send with the k-th receive; all others move at
// the same time. Guarantees: messages of a collective are announced as that collective, so ranks
// that call something else are found, and every fault names the collective. Cost: no allocation
// after the first group of the same length.
#pragma once

#include <span>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/rank/rank_context.h"
#include "kernels/host/point_to_point.h"

namespace rondo {

class MessageCalls : RankPart {
 public:
  explicit MessageCalls(RankContext& context) : RankPart(context) {}

  // Runs the sends and receives among `calls`. whole: the collective that they form, or null.
  Status run(std::span<const Call> calls, const CallRecord* whole = nullptr);
  Status run_announced(std::span<const Call> messages, const CallRecord& whole);
  // A collective that has no algorithm along connections.
  Status run_collective(const Call& call);

 private:
  void record(const Call& message);

  std::vector<host::Message> messages_;  // messages of the group in progress
};

}  // namespace rondo
