// Direct broadcast: the root exposes its input, every rank copies from it.
//
// Traffic: the root writes S bytes once, every other rank reads S. The root runs up to four rounds
// ahead of its readers. Order: none (nothing is reduced). In place, zero-copy: safe.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_broadcast(P& p, int root, const Rounds& rounds) {
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const Piece all{part.begin, 0, part.count};
    const int slot = slot_of(round);
    if (p.rank() == root) {
      p.open(slot);
      p.expose(slot, all);
      p.publish();
      p.copy_own(part.begin, part.begin, part.count);
    } else {
      p.publish();  // reports to the root that the previous round has been read
      p.wait(root);
      p.copy(root, slot, all, part.begin);
    }
  }
  p.release();
}

}  // namespace rondo
