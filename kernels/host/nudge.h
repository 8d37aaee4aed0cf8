// SPDX-License-Identifier: Apache-2.0
// Nudge: moves a waiting thread off a core on which a peer runs, while another core is free.
//
// For ranks that nobody has bound: the kernel puts two ranks on one core again and again, because
// it wakes a rank near the one that woke it, and then they take turns. Ranks publish their cores
// (shared_core.h). A rank whose wait is not over within its spins looks for peers on its own core.
// If there is one, it limits its affinity mask to a core that no peer has published, which moves it
// there, and restores its mask at once. It prefers one whose hardware threads carry no peer either,
// and of those the nearest: one with the same last-level cache, or on the same NUMA node.
// Guarantees: the waiting rank moves, the one that works stays; of two that wait, only one. Never
// to a core of a peer, or one that the mask does not allow. The mask is read at each move and
// restored as it was; if another program changes it during the move, that change stays, unless it
// comes between the move's last two system calls (some 100 ns). Whatever fails (a core that has
// gone offline) leaves the rank where it is. At most one move of a rank every 2 ms, and its moves
// take at most 5 % of the time: one to a core that other programs use waits for its turn there. A
// thread that drives several ranks as fibers does not leave its own ranks.
// Limits: a peer's core is that of its newest call, so a move may be in vain. Which cores other
// programs use is not known. Peers on two hardware threads of a core stay there. Two threads of one
// process that drive several ranks each do not leave each other's core. Linux 6.2 and later keep a
// restored mask as if the program had set it: a cpuset that grows later does not widen it.
// Cost: nothing while data is ready; about 0.1 us for a wait that spins did not end, and one load
// per peer at most every 100 us; a move takes four system calls.
//
//   nudge.look(peers, rank, false);  // before the thread yields
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/atomics.h"
#include "base/doorbell.h"
#include "base/seconds.h"
#include "topology/cpu_places.h"
#include "transport/connection.h"

namespace rondo::host {

// An affinity mask. Kernels have at most 8192 CPUs on x86-64.
class CoreMask {
 public:
  static constexpr int kCores = 8192;

  void set(int core) { word(core) |= bit(core); }
  void clear(int core) { word(core) &= ~bit(core); }
  // The next core behind this one, by number and around; -1: none but itself.
  int next(int core) const {
    for (int at = core + 1; at < kCores; ++at) {
      if (words[at / kBits] == 0) at |= kBits - 1;  // to the end of the word
      if (has(at)) return at;
    }
    for (int at = 0; at < core; ++at)
      if (has(at)) return at;
    return -1;
  }
  bool has(int core) const { return (words[core / kBits] & bit(core)) != 0; }
  friend bool operator==(const CoreMask&, const CoreMask&) = default;

  static constexpr int kBits = 64;
  std::uint64_t words[kCores / kBits] = {};

 private:
  std::uint64_t& word(int core) { return words[core / kBits]; }
  static std::uint64_t bit(int core) { return std::uint64_t{1} << (core % kBits); }
};

// The calling thread's cores. Tests replace this policy.
struct HostCores {
  static std::uint32_t core() { return DoorbellAtomics::core(); }  // on which it runs, + 1
  // Fails where the kernel has more CPUs than a CoreMask. The C library's functions take masks of
  // any size as a cpu_set_t of 1024 CPUs.
  static bool read_mask(CoreMask& mask) {
    mask = {};
    return sched_getaffinity(0, sizeof mask.words, reinterpret_cast<cpu_set_t*>(mask.words)) == 0;
  }
  static bool set_mask(const CoreMask& mask) {
    return sched_setaffinity(0, sizeof mask.words,
                             reinterpret_cast<const cpu_set_t*>(mask.words)) == 0;
  }
  static std::int64_t now() { return now_ns(); }
};

template <class Cores>
class BasicNudge {
 public:
  static constexpr std::int64_t kBetweenMoves = 2'000'000;  // ns
  static constexpr std::int64_t kBetweenLooks = 100'000;
  static constexpr std::int64_t kPausePerMove = 20;  // times the duration of the move

  // places: by CPU number; must outlive this. Empty, or too short: nothing is known of the others.
  void enable(std::span<const topology::CpuPlace> places) {
    places_ = places;
    enabled_ = true;
  }

  // Rank `me` is about to yield in a wait, on the thread that calls this. drives_others: the thread
  // may also drive the other ranks of its process, which are where it is.
  void look(const std::vector<PeerPort>& peers, int me, bool drives_others) {
    if (!enabled_) return;
    const std::int64_t now = Cores::now();
    if (now < next_look_) return;
    const std::uint32_t here = Cores::core();
    const bool moved = is_shared(peers, me, here, drives_others) && leave(peers, me, here);
    next_look_ = now + kBetweenLooks;
    if (!moved) return;
    const std::int64_t over = Cores::now();
    next_look_ = over + std::max(kBetweenMoves, kPausePerMove * (over - now));
  }

 private:
  static std::uint32_t core_of(const PeerPort& peer) {
    return HostAtomics::load_relaxed(peer.steps->core);
  }

  static bool is_shared(const std::vector<PeerPort>& peers, int me, std::uint32_t here,
                        bool drives_others) {
    for (std::size_t r = 0; r < peers.size() && here != 0; ++r) {
      if (static_cast<int>(r) == me || (drives_others && peers[r].same_process)) continue;
      if (core_of(peers[r]) == here) return true;
    }
    return false;
  }

  using Place = topology::CpuPlace;
  Place place_of(int cpu) const {
    const auto at = static_cast<std::size_t>(cpu);
    return at < places_.size() ? places_[at] : Place{};
  }

  // The first of the best CPUs of `free`, behind `here` and around; -1: there is none. peers: the
  // names of the peers' physical cores.
  int best_of(const CoreMask& free, const CoreMask& peers, int here) const {
    const auto is_same = [](std::uint16_t one, std::uint16_t other) {
      return one == other && one != Place::kUnknown;
    };
    const Place from = place_of(here);
    const auto value_of = [&](int cpu) {
      const Place place = place_of(cpu);
      const bool beside_peer = place.core != Place::kUnknown && peers.has(place.core);
      return (beside_peer ? 0 : 4) + (is_same(place.cache, from.cache) ? 2 : 0) +
             (is_same(place.node, from.node) ? 1 : 0);
    };
    const int first = free.next(here);
    int best = first;
    for (int cpu = first < 0 ? -1 : free.next(first); cpu >= 0 && cpu != first;
         cpu = free.next(cpu))
      if (value_of(cpu) > value_of(best)) best = cpu;
    return best;
  }

  // True if the mask was limited, whether or not that moved the thread.
  bool leave(const std::vector<PeerPort>& peers, int me, std::uint32_t here) const {
    CoreMask before;
    if (here > CoreMask::kCores || !Cores::read_mask(before)) return false;
    CoreMask free = before, cores_of_peers;
    for (std::size_t r = 0; r < peers.size(); ++r) {
      if (static_cast<int>(r) == me) continue;  // the kernel may have moved this rank since
      const std::uint32_t theirs = core_of(peers[r]);
      if (theirs == 0 || theirs > CoreMask::kCores) continue;
      const int cpu = static_cast<int>(theirs) - 1;
      free.clear(cpu);
      if (place_of(cpu).core != Place::kUnknown) cores_of_peers.set(place_of(cpu).core);
    }
    const int target = best_of(free, cores_of_peers, static_cast<int>(here) - 1);
    if (target < 0) return false;
    std::uint32_t& own = peers[static_cast<std::size_t>(me)].steps->core;
    // Before the move, which lets the peer run: it must not leave this core too.
    HostAtomics::store_relaxed(own, static_cast<std::uint32_t>(target) + 1);
    CoreMask only, during;
    only.set(target);
    const bool moved = Cores::set_mask(only);
    if (moved && Cores::read_mask(during) && during == only) (void)Cores::set_mask(before);
    HostAtomics::store_relaxed(own, Cores::core());
    return moved;
  }

  bool enabled_ = false;
  std::span<const Place> places_;
  std::int64_t next_look_ = 0;
};

using Nudge = BasicNudge<HostCores>;

}  // namespace rondo::host
