// Direct all-to-all: every rank exposes a block for each peer and copies what peers have for it.
//
// `rounds` walk over one block; a slot holds a round of all n blocks. Traffic per rank for blocks
// of S bytes: writes and reads S * (n-1). Order: none. In place: only with inputs staged, for a
// rank overwrites blocks of its own that peers may not have read.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_all_to_all(P& p, const Rounds& rounds) {
  const int n = p.size(), me = p.rank();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const auto block = [&](int r) {
      return Piece{r * rounds.count + part.begin, r * rounds.per_round, part.count};
    };
    const int slot = slot_of(round);
    p.open(slot);
    for (int k = 1; k < n; ++k) p.expose(slot, block((me + k) % n));
    p.publish();
    p.copy_own(block(me).at, block(me).at, part.count);
    for (int k = 1; k < n; ++k) {
      const int from = (me + k) % n;
      p.wait(from);
      p.copy(from, slot, block(me), block(from).at);
    }
  }
  p.release();
}

}  // namespace rondo
