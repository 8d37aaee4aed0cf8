// Direct gather: every rank exposes its block, the root copies them in rank order.
//
// `rounds` split one rank's block. Traffic: the root reads S * (n-1) for blocks of S bytes; the
// others run up to four rounds ahead of it. Order: none. In place, zero-copy: safe.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_gather(P& p, int root, const Rounds& rounds) {
  const int n = p.size(), me = p.rank();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const Piece all{part.begin, 0, part.count};
    const int slot = slot_of(round);
    if (me != root) {
      p.open(slot);
      p.expose(slot, all);
      p.publish();
      continue;
    }
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
