// SPDX-License-Identifier: Apache-2.0
// Direct algorithms, one per collective: each rank reads its peers' inputs where they are, in one
// step per round, without slots.
#pragma once

#include "kernels/primitives.h"

namespace rondo {

// Direct all-gather: every rank exposes its block once, and every rank copies all blocks.
//
// `rounds` split one rank's block. Traffic per rank for blocks of S bytes: writes S, reads S *
// (n-1). Order: none. In place, zero-copy: safe.
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

// Direct all-to-all: every rank exposes one block for each peer and copies its own block from each.
//
// `rounds` split one block; a slot holds one round of all n blocks. Traffic per rank for blocks of
// S bytes: writes and reads S * (n-1). Order: none. In place: only with staged inputs, because a
// rank overwrites its own blocks while peers may not have read them yet.
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

// Direct barrier: no rank leaves before every rank has entered.
//
// Traffic: one publication, one wait per peer. Order: none.
template <PeerMemory P>
RONDO_FN void direct_barrier(P& p) {
  p.publish();
  wait_for_all(p);
  p.release();
}

// Direct broadcast: the root exposes its input, every rank copies from it.
//
// Traffic: the root writes S bytes once, every other rank reads S. The root runs up to four rounds
// ahead of its readers, in small calls more (HostCall::slot_parts). Order: none (nothing is
// reduced). In place, zero-copy: safe.
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

// Direct gather: every rank exposes its block, the root copies them in rank order.
//
// `rounds` split one rank's block. Traffic: the root reads S * (n-1) for blocks of S bytes; the
// others run up to four rounds ahead of it. Order: none. In place, zero-copy: safe.
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

// Direct reduce, in two forms.
//
// direct_reduce: every rank reduces one part from all ranks, then the root fetches the parts.
// Traffic for S bytes: every rank reads S * (n-1)/n of its peers' inputs, and the root reads the
// same amount of results. One publication per round carries this round's result and the next
// round's input.
// one_shot_reduce: the root reduces everything itself. It reads S * (n-1), with one wait per round.
// It is the faster form where latency dominates, and the others run up to four rounds ahead.
// Order: tree. In place, zero-copy: safe, because only its reducer reads and writes a part.
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

// Direct reduce-scatter: every rank exposes all blocks and reduces its own block from all ranks.
//
// `rounds` split one block; a slot holds one round of all n blocks. Traffic per rank for blocks of
// S bytes: writes and reads S * (n-1). Order: tree. In place, zero-copy: safe, because only its
// owner reads and writes a block.
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

// Direct scatter: the root exposes one block for every rank, each rank copies its own.
//
// `rounds` split one rank's block; a slot holds one round of all n blocks. Traffic: the root writes
// S * (n-1) for blocks of S bytes, every other rank reads S. The root runs up to four rounds ahead
// of its readers. Order: none. In place, zero-copy: safe.
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
