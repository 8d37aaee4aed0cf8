// SPDX-License-Identifier: Apache-2.0
// SharedCore: tells a wait whether another rank needs the core on which it would spin.
// CoreTime: tells a call whether anything else takes much of this rank's time on the core.
//
// Each rank publishes its core (StepLine::core) in every fourth call, if a host has several ranks.
// The rest is for hosts with more ranks than cores: a rank publishes its core in each call, and
// looks for the others on it in calls 1, 2, 4 and so on, and in every 64th. If one of them is
// behind, this rank yields at once; if none is, it waits for other cores, and spins. So the ranks
// of a core complete several calls at each switch.
// Guarantees: a wrong answer (a rank has moved to another core) costs time, nothing else. Cost: one
// load for each rank on this core, only where a wait is not over at its first look.
#pragma once

#include <cstdint>
#include <vector>

#include "base/seconds.h"
#include "transport/connection.h"

namespace rondo::host {

template <class A>
class SharedCore {
 public:
  void enable_publishing() { published_ = true; }
  void enable() { published_ = enabled_ = true; }  // there are more ranks than cores
  bool is_enabled() const { return enabled_; }

  // Before the call `sequence` of rank `me` is announced.
  void publish(const std::vector<PeerPort>& peers, int me, std::uint64_t sequence) {
    if (!published_) return;
    if (!enabled_ && sequence % kCallsPerPublication != 1) return;
    const std::uint32_t core = A::core();
    A::store_relaxed(peers[static_cast<std::size_t>(me)].steps->core, core);
    if (!enabled_) return;
    const bool early = (sequence & (sequence - 1)) == 0;
    if (early || sequence % kCallsPerLook == 0 || core != core_) look(peers, me, core);
  }

  // True if a rank on this core is not as far as rank `me`, or is the awaited peer.
  bool is_wanted(const std::vector<PeerPort>& peers, int me, int peer) const {
    const StepLine& mine = *peers[static_cast<std::size_t>(me)].steps;
    for (const int r : others_) {
      const StepLine& theirs = *peers[static_cast<std::size_t>(r)].steps;
      if (r == peer || A::load_relaxed(theirs.sequence) < A::load_relaxed(mine.sequence) ||
          A::load_relaxed(theirs.step) < A::load_relaxed(mine.step))
        return true;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kCallsPerLook = 64;
  static constexpr std::uint64_t kCallsPerPublication = 4;  // each costs 4 ns

  void look(const std::vector<PeerPort>& peers, int me, std::uint32_t core) {
    core_ = core;
    others_.clear();
    others_.reserve(peers.size());
    for (std::size_t r = 0; r < peers.size() && core != 0; ++r)
      if (static_cast<int>(r) != me && A::load_relaxed(peers[r].steps->core) == core)
        others_.push_back(static_cast<int>(r));
  }

  bool published_ = false;
  bool enabled_ = false;
  std::uint32_t core_ = 0;   // of this rank's newest call, as in StepLine
  std::vector<int> others_;  // ranks that were last seen on that core
};

// Of a rank's last calls of many rounds, the time that they took, and the part in which the rank
// ran: all of it, unless it sleeps, yields, or loses the core to others. Waits for a late rank at a
// call's begin do not count.
class CoreTime {
 public:
  struct Times {
    std::int64_t wall, core;  // ns
  };
  static Times now() { return {now_ns(), thread_ns()}; }

  void add(const Times& begin, const Times& end) {
    if (total_.wall > kMemory) total_ = {total_.wall / 2, total_.core / 2};
    total_.wall += end.wall - begin.wall;
    total_.core += end.core - begin.core;
  }
  // The rank did not run for a quarter of the time, and for as long as a turn of others takes.
  bool is_short() const {
    const std::int64_t off = total_.wall - total_.core;
    return off > kTurn && off > total_.wall / 4;
  }

 private:
  static constexpr std::int64_t kMemory = 50'000'000, kTurn = 2'000'000;  // ns
  Times total_{0, 0};
};

}  // namespace rondo::host
