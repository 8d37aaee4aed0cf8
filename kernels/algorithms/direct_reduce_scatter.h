// Direct reduce-scatter: every rank exposes all blocks and reduces its own block from all ranks.
//
// `rounds` split one block; a slot holds one round of all n blocks. Traffic per rank for blocks of
// S bytes: writes and reads S * (n-1). Order: tree. In place, zero-copy: safe, because only its
// owner reads and writes a block.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_reduce_scatter(P& p, const Rounds& rounds) {
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
    wait_for_all(p);
    p.reduce(slot, block(me), {true, part.begin, -1, 0, -1});
  }
  p.release();
}

}  // namespace rondo
