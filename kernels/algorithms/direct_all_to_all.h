// Direct all-to-all: every rank exposes one block for each peer and copies its own block from each.
//
// `rounds` split one block; a slot holds one round of all n blocks. Traffic per rank for blocks of
// S bytes: writes and reads S * (n-1). Order: none. In place: only with staged inputs, because a
// rank overwrites its own blocks while peers may not have read them yet.
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
