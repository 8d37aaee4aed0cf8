// SPDX-License-Identifier: Apache-2.0
// How far apart the cores of a host's ranks are: the time in which one cache line goes from the
// core that wrote it to another that reads it.
//
// Each rank exchanges its StepLine::echo with every other rank, pair by pair in the rounds of a
// tournament, so that no rank has two partners at once. Cores with a common last-level cache need
// 20 to 60 ns, cores of two sockets or of a scattered virtual machine 100 to 300.
// Guarantees: ends after 2 * kLongest + kLongestPair for each round at most, whatever the peers do.
// A peer that does not come in time (its core runs something else) leaves only the pair unknown:
// each round may last longer than the one before, so partners that have waited in vain elsewhere
// are still met. Echoes of one pair are never taken for those of another. Cost: about 5 us for each
// near peer, 20 for a far one.
// Source of the rounds: T. P. Kirkman, On a problem in combinations, 1847 (round-robin schedules).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/doorbell.h"
#include "transport/connection.h"

namespace rondo::host {

template <class A = DoorbellAtomics>  // an Atomics policy, see base/doorbell.h
class CoreDistance {
 public:
  static constexpr std::int64_t kLongest = 2'000'000, kLongestPair = 50'000;  // ns

  // peers: all ranks of the host, `me` included. All must measure, once, at about the same time.
  CoreDistance(const std::vector<PeerPort>& peers, int me)
      : peers_(peers), me_(me), size_(static_cast<int>(peers.size())) {}

  // By rank: ns of an exchange with it; 0: it did not answer, or is this rank.
  std::vector<double> to_all() const {
    std::vector<double> found(static_cast<std::size_t>(size_));
    const int players = size_ + size_ % 2;
    std::int64_t end = A::now() + kLongest;
    for (int round = 0; round < players - 1; ++round) {
      end += kLongestPair + (round > 0 ? kLongest / (players - 2) : 0);
      const int peer = partner(me_, round, players);
      if (peer >= size_) continue;  // with an odd number of ranks, one rests
      found[static_cast<std::size_t>(peer)] =
          exchange(peer, static_cast<std::uint64_t>(round + 1) * kStride, end);
    }
    return found;
  }
  double farthest() const {
    const std::vector<double> found = to_all();
    return *std::max_element(found.begin(), found.end());
  }

  // Everybody has everybody as partner once in players - 1 rounds. players: even.
  static int partner(int player, int round, int players) {
    const int others = players - 1;
    if (player == others) return round * (players / 2) % others;
    const int opposite = (round - player + others) % others;
    return opposite == player ? others : opposite;
  }

 private:
  static constexpr std::uint64_t kStride = 64;  // echoes of a round
  static constexpr int kBatches = 4, kTrips = 8;
  static_assert(kBatches * kTrips <= kStride);

  std::uint64_t& echo(int r) const { return peers_[static_cast<std::size_t>(r)].steps->echo; }

  // The fastest batch of round trips, halved; 0 if the peer did not come. A peer that has answered
  // the last one may have gone on to its next pair before this rank looks.
  double exchange(int peer, std::uint64_t base, std::int64_t end) const {
    double best = 0;
    for (int batch = 0; batch < kBatches; ++batch) {
      const std::int64_t before = A::now();
      for (int i = 0; i < kTrips; ++i)
        if (!trip(peer, base++, me_ < peer, end)) return best;
      const double ns = static_cast<double>(A::now() - before) / (2 * kTrips);
      if (batch == 1 || (batch > 1 && ns < best)) best = ns;  // batch 0 waits for the peer
    }
    return best;
  }

  bool trip(int peer, std::uint64_t echo_now, bool leads, std::int64_t end) const {
    if (leads) A::store_release(echo(me_), echo_now);
    for (int spins = 1;; ++spins) {
      const std::uint64_t seen = A::load_acquire(echo(peer));
      if (seen == echo_now) break;
      if (seen > echo_now || (spins % 64 == 0 && A::now() > end)) return false;
    }
    if (!leads) A::store_release(echo(me_), echo_now);
    return true;
  }

  const std::vector<PeerPort>& peers_;
  int me_, size_;
};

}  // namespace rondo::host
