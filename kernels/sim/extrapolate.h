// play_until_even(): plays ever more rounds of a call until each takes as long as the one before,
// and counts the rest at that (`extrapolated`).
//
// `all` is what the call has, in rounds. Where the time never becomes even everything is played, so
// the answer is at worst slow. Cost: three runs a doubling.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

// Rounds that are played first, and by which share periods may differ.
struct Evenness {
  std::uint64_t fewest = 4;
  double tolerance = 1e-3;
};

// play(rounds): the first ones, with what is incomplete at the call's end. play_all(): all of it.
template <class Play, class PlayAll>
Result<SimResult> play_until_even(double all, const Evenness& wanted, const Play& play,
                                  const PlayAll& play_all) {
  for (std::uint64_t rounds = wanted.fewest; static_cast<double>(2 * rounds) < all; rounds *= 2) {
    RONDO_TRY(const SimResult first, play(rounds));
    RONDO_TRY(const SimResult second, play(rounds + rounds / 2));
    RONDO_TRY(SimResult third, play(2 * rounds));
    const double early = second.ns - first.ns, late = third.ns - second.ns;
    if (std::abs(late - early) > wanted.tolerance * late) continue;
    // `late` is of half as many rounds as `rounds` are.
    const auto played = static_cast<double>(2 * rounds);
    third.ns += 4 * late / played * (all - played);
    third.extrapolated = true;
    return third;
  }
  return play_all();
}

}  // namespace rondo::sim
