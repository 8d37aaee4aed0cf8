// SPDX-License-Identifier: Apache-2.0
// run_links(): runs an algorithm over Links on ranks in any order (see the ring's `ranks`).
//
// Rings use the given order, and trees run over positions in it. So, if the ranks of each host are
// consecutive in the order, both cross hosts as rarely as possible. All other algorithms guarantee
// a reduction order by rank number, so they ignore the given order. Kernels do the same
// (kernels/cuda/connected.h). Cost: one search for the root, and one look-up per peer.
//
//   run_links<Where::kHost>(links, {position, n, {ranks}}, root, rounds, algorithm, collective);
#pragma once

#include "kernels/algorithms/ring.h"
#include "kernels/algorithms/run_algorithm.h"
#include "kernels/primitives.h"

namespace rondo {

// A rank's Links with positions in `order` instead of rank numbers.
template <class C>
struct OverPositions {
  C& links;
  const RingView& order;

  int rank() const { return order.position; }
  int size() const { return order.size; }
  auto between(Peers from, Peers to, int channel) const {
    return links.between(ranks_at(from), ranks_at(to), channel);
  }
  template <class First, class Second>
  void roles(const First& first, const Second& second) const {
    links.roles(first, second);
  }

 private:
  int rank_at(int position) const { return position < 0 ? position : order.ranks[position]; }
  Peers ranks_at(Peers positions) const {
    return {rank_at(positions.first), rank_at(positions.second)};
  }
};

enum class Speaks : std::uint8_t { kNumbers, kPositions };
constexpr Speaks speech_of(Algorithm algorithm) {
  return algorithm == Algorithm::kTree ? Speaks::kPositions : Speaks::kNumbers;
}

// The struct that run_algorithm() needs for algorithms over connections.
template <Where kWhere, Speaks kSpeaks, class C>
struct LinksAlgorithm {
  C& links;
  const RingView& ring;
  int root;  // a rank number or a position, see kSpeaks
  const Rounds& rounds;

  static constexpr bool runs(const AlgorithmRow& row) {
    return row.verbs == Verbs::kPrimitives && row.runs(kWhere) &&
           speech_of(row.algorithm) == kSpeaks;
  }
};

// False if the executor has no such algorithm. `root`: rank number, or -1.
template <Where kWhere, class C>
bool run_links(C& links, const RingView& ring, int root, const Rounds& rounds, Algorithm algorithm,
               Collective collective) {
  if (speech_of(algorithm) == Speaks::kNumbers) {
    LinksAlgorithm<kWhere, Speaks::kNumbers, C> text{links, ring, root, rounds};
    return run_algorithm(text, algorithm, collective);
  }
  OverPositions<C> over{links, ring};
  const int position = root < 0 ? root : ring.part(ring.behind(root));
  LinksAlgorithm<kWhere, Speaks::kPositions, OverPositions<C>> text{over, ring, position, rounds};
  return run_algorithm(text, algorithm, collective);
}

}  // namespace rondo
