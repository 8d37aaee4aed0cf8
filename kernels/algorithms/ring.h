// SPDX-License-Identifier: Apache-2.0
// Ring algorithms, for two or more ranks: each rank receives from the previous rank and sends to
// the next one only.
//
// For S bytes per rank (all-reduce, broadcast, reduce) or per block (all-gather, reduce-scatter),
// every rank sends: all-reduce 2 * S * (n-1)/n, all-gather and reduce-scatter S * (n-1), broadcast
// and reduce S, in n - 1 steps per round (all-reduce 2n - 2). Rounds overlap: a rank sends its
// first chunk of the next round before it waits for the last chunk of this one.
// Order: ring, that is (((first + second) + ...) + last) along the ring, where the first is
//   all-reduce      the rank at position p for part p of a round,
//   reduce-scatter  the rank after the block's owner, so that the owner is last,
//   reduce          the rank after the root, so that the root is last.
// Slots per connection: all-reduce, all-gather and reduce-scatter at least two; chains (broadcast,
// reduce) one. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009).
#pragma once

#include "kernels/primitives.h"

namespace rondo {

// The rank at every position of a ring.
struct RankTable {
  const int* ranks = nullptr;  // null: position p holds rank p
  RONDO_FN constexpr int operator[](int position) const {
    return ranks == nullptr ? position : ranks[position];
  }
};

// The ring as this rank sees it. The rank at position k sends part k of a round first. Order: any
// type with order[p], the rank at position p.
template <class Order>
struct RingOf {
  int position;  // this rank's, 0..size-1
  int size;
  Order ranks = {};

  // The position, and the part number, that is `behind` places before this rank's own.
  RONDO_FN constexpr int part(int behind) const {
    return ((position - behind) % size + size) % size;
  }
  RONDO_FN constexpr int rank(int behind) const { return ranks[part(behind)]; }
  // Number of places from rank `root` to this rank.
  RONDO_FN constexpr int behind(int root) const {
    int places = 0;
    while (rank(places) != root && places < size) ++places;
    return places;
  }
};
using RingView = RingOf<RankTable>;

// The connection from the previous rank and to the next rank.
template <Links C, class Ring>
RONDO_FN auto along(C& links, const Ring& ring) {
  return links.between({ring.rank(1), -1}, {ring.rank(-1), -1}, 0);
}

template <Links C, class Ring>
RONDO_FN void ring_all_reduce(C& links, const Ring& ring, const Rounds& rounds) {
  auto p = along(links, ring);
  const auto c = [&](std::uint64_t round, int behind) {
    const Slice part = part_of(rounds[round], ring.part(behind), ring.size, rounds.grain);
    return Chunk{part.begin, part.begin, part.count};
  };
  if (rounds.size() != 0) p.send(c(0, 0));
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    for (int k = 1; k < ring.size - 1; ++k) p.recv_reduce_send(c(round, k));
    p.recv_reduce_copy_send(c(round, ring.size - 1));
    for (int k = 0; k < ring.size - 2; ++k) p.recv_copy_send(c(round, k));
    if (round + 1 < rounds.size()) p.send(c(round + 1, 0));
    p.recv(c(round, ring.size - 2));
  }
}

template <Links C, class Ring>
RONDO_FN void ring_all_gather(C& links, const Ring& ring, const Rounds& rounds) {
  auto p = along(links, ring);
  const auto c = [&](std::uint64_t round, int behind) {
    const Slice part = rounds[round];
    return Chunk{part.begin, ring.rank(behind) * rounds.count + part.begin, part.count};
  };
  if (rounds.size() != 0) p.copy_send(c(0, 0));
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    for (int k = 1; k < ring.size - 1; ++k) p.recv_copy_send(c(round, k));
    if (round + 1 < rounds.size()) p.copy_send(c(round + 1, 0));
    p.recv(c(round, ring.size - 1));
  }
}

template <Links C, class Ring>
RONDO_FN void ring_reduce_scatter(C& links, const Ring& ring, const Rounds& rounds) {
  auto p = along(links, ring);
  const auto c = [&](std::uint64_t round, int behind) {
    const Slice part = rounds[round];
    return Chunk{ring.rank(behind) * rounds.count + part.begin, part.begin, part.count};
  };
  if (rounds.size() != 0) p.send(c(0, 1));
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    for (int k = 2; k < ring.size; ++k) p.recv_reduce_send(c(round, k));
    if (round + 1 < rounds.size()) p.send(c(round + 1, 1));
    p.recv_reduce_copy(c(round, ring.size));
  }
}

// A chain from the root to the rank before it.
template <Links C, class Ring>
RONDO_FN void ring_broadcast(C& links, const Ring& ring, int root, const Rounds& rounds) {
  auto p = along(links, ring);
  const int place = ring.behind(root);
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Chunk c = chunk_of(rounds[round], 0, rounds.per_round);
    if (place == 0) {
      p.copy_send(c);
    } else if (place < ring.size - 1) {
      p.recv_copy_send(c);
    } else {
      p.recv(c);
    }
  }
}

// A chain from the rank after the root to the root.
template <Links C, class Ring>
RONDO_FN void ring_reduce(C& links, const Ring& ring, int root, const Rounds& rounds) {
  auto p = along(links, ring);
  const int place = ring.behind(root);
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Chunk c = chunk_of(rounds[round], 0, rounds.per_round);
    if (place == 1) {
      p.send(c);
    } else if (place != 0) {
      p.recv_reduce_send(c);
    } else {
      p.recv_reduce_copy(c);
    }
  }
}

}  // namespace rondo
