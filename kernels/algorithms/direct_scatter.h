// Direct scatter: the root exposes one block for every rank, each rank copies its own.
//
// `rounds` split one rank's block; a slot holds one round of all n blocks. Traffic: the root writes
// S * (n-1) for blocks of S bytes, every other rank reads S. The root runs up to four rounds ahead
// of its readers. Order: none. In place, zero-copy: safe.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_scatter(P& p, int root, const Rounds& rounds) {
  const int n = p.size(), me = p.rank();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const auto block = [&](int r) {
      return Piece{r * rounds.count + part.begin, r * rounds.per_round, part.count};
    };
    const int slot = slot_of(round);
    if (me == root) {
      p.open(slot);
      for (int k = 1; k < n; ++k) p.expose(slot, block((me + k) % n));
      p.publish();
      p.copy_own(block(me).at, part.begin, part.count);
    } else {
      p.publish();  // reports to the root that the previous round has been read
      p.wait(root);
      p.copy(root, slot, block(me), part.begin);
    }
  }
  p.release();
}

}  // namespace rondo
