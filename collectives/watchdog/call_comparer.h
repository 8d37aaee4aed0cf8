// CallComparer: finds ranks that made different calls, and says which was the first that differed.
//
// Calls of ranks of this host are compared with what they announced (kAnnounceDepth calls back);
// those of other hosts by what they report. Cost: check() is a load or two a local rank.
#pragma once

#include "collectives/communicator/rank_context.h"

namespace rondo {

class CallComparer : RankPart {
 public:
  explicit CallComparer(RankContext& context) : RankPart(context) {}

  // True, and a fault, if a rank of this host has announced another call than the current one.
  bool check();
  // Rank `peer` made the call `theirs` where this rank made `mine`; where the two are equal, they
  // differ in an earlier one. number: of their call, or 0: of this one.
  void on_mismatch(int peer, const CallRecord& mine, const CallRecord& theirs,
                   std::uint64_t number = 0);
  // In call `sequence` this rank and the peer did different things; where the records are equal, in
  // one before it.
  void raise_at(std::uint64_t sequence, int peer, const CallRecord& mine, const CallRecord& theirs);

 private:
  void find_first(int local, std::uint64_t* sequence, CallRecord* mine, CallRecord* theirs) const;
};

}  // namespace rondo
