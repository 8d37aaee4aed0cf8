// play_until_even(): simulates more and more rounds of a call until equal numbers of rounds take
// equal time, then extrapolates the rest (`extrapolated`).
//
// `all`: the call's number of rounds. If the time never becomes even, all rounds are simulated:
// slow, but correct. Cost: three runs per doubling.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "kernels/sim/simulate.h"

namespace rondo::sim {

// The number of rounds to start with, and the relative difference allowed between periods.
struct Evenness {
  std::uint64_t fewest = 4;
  double tolerance = 1e-3;
};

// play(rounds): simulates the first rounds and the incomplete one at the call's end. play_all():
// simulates all.
template <class Play, class PlayAll>
Result<SimResult> play_until_even(double all, const Evenness& wanted, const Play& play,
                                  const PlayAll& play_all) {
  for (std::uint64_t rounds = wanted.fewest; static_cast<double>(2 * rounds) < all; rounds *= 2) {
    RONDO_TRY(const SimResult first, play(rounds));
    RONDO_TRY(const SimResult second, play(rounds + rounds / 2));
    RONDO_TRY(SimResult third, play(2 * rounds));
    const double early = second.ns - first.ns, late = third.ns - second.ns;
    if (std::abs(late - early) > wanted.tolerance * late) continue;
    // `late` is the time of rounds / 2 rounds.
    const auto played = static_cast<double>(2 * rounds);
    third.ns += 4 * late / played * (all - played);
    third.extrapolated = true;
    return third;
  }
  return play_all();
}

}  // namespace rondo::sim
