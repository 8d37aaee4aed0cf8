// Ring all-reduce: n - 1 steps that reduce, n - 1 steps that pass the complete parts on.
//
// Traffic per rank of S bytes: sends 2 * S * (n-1)/n, whatever n. Order: ring (part p is summed in
// the order of the ranks from p's starting point on; see collectives' algorithm table).
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009).
#pragma once

#include "kernels/primitives.h"

namespace rondo {

// The place of this rank in a ring. Part k of a round is first sent by the rank at position k.
struct RingView {
  int position;  // of this rank, 0..size-1
  int size;
  // The part that is `behind` places behind this rank's own.
  RONDO_FN constexpr int part(int behind) const {
    return ((position - behind) % size + size) % size;
  }
};

template <Primitives P>
RONDO_FN void ring_all_reduce(P& p, const RingView& ring, const Rounds& rounds) {
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const auto c = [&](int behind) {
      const Slice part = part_of(rounds[round], ring.part(behind), ring.size, rounds.grain);
      return Chunk{part.begin, part.begin, part.count};
    };
    p.send(c(0));
    for (int k = 1; k < ring.size - 1; ++k) p.recv_reduce_send(c(k));
    p.recv_reduce_copy_send(c(ring.size - 1));
    for (int k = 0; k < ring.size - 2; ++k) p.recv_copy_send(c(k));
    p.recv(c(ring.size - 2));
  }
}

}  // namespace rondo
