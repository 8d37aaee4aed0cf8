// Ring algorithms, for two ranks or more: data only ever passes to the next rank.
//
// For S bytes per rank (all-reduce, broadcast, reduce) or per block (all-gather, reduce-scatter),
// every rank sends: all-reduce 2 * S * (n-1)/n, all-gather and reduce-scatter S * (n-1), broadcast
// and reduce S, in n - 1 steps a round (all-reduce 2n - 2). Rounds overlap: what a rank sends first
// of the next round leaves before it waits for the last of this one.
// Order: ring, that is (((first + second) + ...) + last) along the ring, where the first is
//   all-reduce      the rank at position p for part p of a round,
//   reduce-scatter  the rank after the block's owner, so that the owner is last,
//   reduce          the rank after the root, so that the root is last.
// Slots: all-reduce at least two, all-gather and reduce-scatter too; chains (broadcast, reduce)
// one. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009).
#pragma once

#include "kernels/primitives.h"

namespace rondo {

// The rank at every position of a ring.
struct RankTable {
  const int* ranks = nullptr;  // null: its number is its position
  RONDO_FN constexpr int operator[](int position) const {
    return ranks == nullptr ? position : ranks[position];
  }
};

// The place of this rank in a ring. Part k of a round is first sent by the rank at position k.
// Order: order[p] is the rank at position p, wherever executors keep that.
template <class Order>
struct RingOf {
  int position;  // of this rank, 0..size-1
  int size;
  Order ranks = {};

  // The position, and the part, that is `behind` places behind this rank's own.
  RONDO_FN constexpr int part(int behind) const {
    return ((position - behind) % size + size) % size;
  }
  RONDO_FN constexpr int rank(int behind) const { return ranks[part(behind)]; }
  // How many places this rank comes after the rank `root`.
  RONDO_FN constexpr int behind(int root) const {
    int places = 0;
    while (rank(places) != root && places < size) ++places;
    return places;
  }
};
using RingView = RingOf<RankTable>;

// From the rank before this one, to the rank after it.
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
