// SPDX-License-Identifier: Apache-2.0
// Two-shot all-reduce: every rank reduces one part from all ranks, then all fetch the parts.
//
// Traffic per rank for S bytes: reads S * (n-1)/n of its peers' inputs and the same amount of their
// results. One publication per round carries this round's result and the next round's input. Rounds
// after the first are larger where a rank lacks time on its core: a wait costs more there than the
// caches that a large round leaves.
// Order: tree. Source: the direct reduce-scatter and all-gather of Thakur, Rabenseifner and Gropp
// (2005), over shared memory.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void two_shot_all_reduce(P& p, const Rounds& planned) {
  auto rounds = growing(p, planned);
  const int n = p.size(), me = p.rank();
  const auto input_slot = [](std::uint64_t round) { return static_cast<int>(round % 2); };
  const auto result_slot = [](std::uint64_t round) { return static_cast<int>(2 + round % 2); };
  const auto piece = [&](std::uint64_t round, int owner) {
    const Slice part = part_of(rounds[round], owner, n, rounds.grain);
    return Piece{part.begin, part.begin - rounds[round].begin, part.count};
  };
  const auto expose_round = [&](std::uint64_t round) {
    if (round == rounds.size()) return;
    p.open(input_slot(round));
    for (int k = 1; k < n; ++k) p.expose(input_slot(round), piece(round, (me + k) % n));
  };

  expose_round(0);
  p.publish();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Piece mine = piece(round, me);
    wait_for_all(p);
    if (round == 0 && rounds.size() > 1) grow(p, rounds);
    p.open(result_slot(round));
    p.reduce(input_slot(round), mine, {true, mine.at, result_slot(round), mine.window, -1});
    expose_round(round + 1);
    p.publish();
    for (int k = 1; k < n; ++k) {
      const int owner = (me + k) % n;
      p.wait(owner);
      p.copy_result(owner, result_slot(round), piece(round, owner));
    }
  }
  p.release();
}

}  // namespace rondo
