// SPDX-License-Identifier: Apache-2.0
// CallComparer: finds ranks that made different calls and reports the first call that differs.
//
// Calls of ranks on this host are compared with their announcements (the last kAnnounceDepth
// calls); calls of ranks on other hosts with their reports. Cost: check() takes one or two loads
// per local rank.
#pragma once

#include "collectives/rank/rank_context.h"

namespace rondo {

class CallComparer : RankPart {
 public:
  explicit CallComparer(RankContext& context) : RankPart(context) {}

  // Raises a fault and returns true if a rank of this host announced another call than the current
  // one.
  bool check();
  // Rank `peer` made the call `theirs`, this rank made `mine`. If the two are equal, an earlier
  // call differs. number: of their call; 0: the current call.
  void on_mismatch(int peer, const CallRecord& mine, const CallRecord& theirs,
                   std::uint64_t number = 0);
  // Call `sequence` differs between this rank and the peer. If the records are equal, an earlier
  // call differs.
  void raise_at(std::uint64_t sequence, int peer, const CallRecord& mine, const CallRecord& theirs);

 private:
  void find_first(int local, std::uint64_t* sequence, CallRecord* mine, CallRecord* theirs) const;
};

}  // namespace rondo
