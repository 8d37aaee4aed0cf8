// SPDX-License-Identifier: Apache-2.0
// One-shot all-reduce: every rank exposes its whole input, and every rank reduces everything
// itself.
//
// Traffic per rank for S bytes: reads S * (n-1). One wait per round, so it is the fastest where
// latency dominates. Order: tree.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void one_shot_all_reduce(P& p, const Rounds& rounds) {
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const Piece all{part.begin, 0, part.count};
    const int slot = static_cast<int>(round % 2);
    p.open(slot);
    p.expose(slot, all);
    p.publish();
    wait_for_all(p);
    p.reduce(slot, all, {true, part.begin, -1, 0, -1});
  }
  p.release();
}

}  // namespace rondo
