// Direct reduce, in two forms.
//
// direct_reduce: every rank reduces one part from all ranks, then the root fetches the parts.
// Traffic for S bytes: every rank reads S * (n-1)/n of its peers' inputs, and the root reads the
// same amount of results. One publication per round carries this round's result and the next
// round's input.
// one_shot_reduce: the root reduces everything itself. It reads S * (n-1), with one wait per round.
// It is the faster form where latency dominates, and the others run up to four rounds ahead.
// Order: tree. In place, zero-copy: safe, because only its reducer reads and writes a part.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

template <PeerMemory P>
RONDO_FN void direct_reduce(P& p, int root, const Rounds& rounds) {
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
    p.open(result_slot(round));
    p.reduce(input_slot(round), mine,
             {me == root, mine.at, me == root ? -1 : result_slot(round), mine.window, root});
    expose_round(round + 1);
    p.publish();
    for (int k = 1; k < n && me == root; ++k) {
      const int owner = (me + k) % n;
      p.wait(owner);
      p.copy_result(owner, result_slot(round), piece(round, owner));
    }
  }
  p.release();
}

template <PeerMemory P>
RONDO_FN void one_shot_reduce(P& p, int root, const Rounds& rounds) {
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const Piece all{part.begin, 0, part.count};
    const int slot = slot_of(round);
    p.open(slot);
    if (p.rank() != root) p.expose(slot, all);
    p.publish();  // the root reports that it has read the previous round
    if (p.rank() != root) continue;
    wait_for_all(p);
    p.reduce(slot, all, {true, part.begin, -1, 0, -1});
  }
  p.release();
}

}  // namespace rondo
