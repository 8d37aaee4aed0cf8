// Direct all-gather: every rank exposes its block once, and every rank copies all blocks.
//
// `rounds` split one rank's block. Traffic per rank for blocks of S bytes: writes S, reads S *
// (n-1). Order: none. In place, zero-copy: safe.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_all_gather(P& p, const Rounds& rounds) {
  const int n = p.size(), me = p.rank();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const Piece all{part.begin, 0, part.count};
    const int slot = slot_of(round);
    p.open(slot);
    p.expose(slot, all);
    p.publish();
    p.copy_own(part.begin, me * rounds.count + part.begin, part.count);
    for (int k = 1; k < n; ++k) {
      const int from = (me + k) % n;
      p.wait(from);
      p.copy(from, slot, all, from * rounds.count + part.begin);
    }
  }
  p.release();
}

}  // namespace rondo
