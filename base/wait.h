// SPDX-License-Identifier: Apache-2.0
// Waiter: the one place in Rondo where a rank waits for other ranks.
//
// A wait spins, may yield the core, and then parks on the rank's doorbell, at most 100 ms at a
// time. Only ranks that share cores yield, hardly ever beside another program (base/yielder.h). A
// wait adapts to earlier ones. If data arrived right after a yield or a park, the peer needs this
// core, so the next wait spins less; and a park that took long shows that spinning was too short or
// in vain. If only parking helped, the next wait yields less. Both budgets grow back with every
// wait in which they were, or would have been, enough.
// A rank that runs as a fiber or drives a network suspends instead, so that other fibers of its
// thread and its network can go on; it parks when they have nothing to do, 1 ms at a time.
// Off the fast path the wait asks its supervisor (installed by collectives/) again and again
// whether to continue. The supervisor handles deadlines, aborts, faults, dead peers and sockets.
// Guarantees: until() returns false only if the supervisor gave up. Every wait is supervised. A
// ring after an event that the supervisor checks (a fault) always ends or prevents the sleep. Cost:
// while data is ready, one evaluation of the condition; no clock and no system call before the spin
// budget is spent.
//
//   if (!waiter.until([&] { return load_acquire(word) >= target; }, {peer, step})) return;
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/doorbell.h"
#include "base/yielder.h"

namespace rondo {

// The target of a wait; read by the supervisor and shown in diagnoses.
struct WaitSite {
  int peer;              // rank in the host view, or -1
  std::uint64_t step;    // number of the awaited publication or slot
  int global_rank = -1;  // rank in the communicator; set if the peer may be on another host
  // Returns whether the wait also needs that rank of the communicator. Null: the supervisor decides
  // by the call in progress.
  bool (*needs)(const void* self, int global_rank) = nullptr;
  const void* self = nullptr;
  // True: the wait is for the network; the program of rank global_rank takes no part.
  bool of_network = false;
  bool core_is_wanted = false;  // another rank needs this core: do not spin
};

template <class A = DoorbellAtomics>  // an Atomics policy, see base/doorbell.h
class BasicWaiter {
 public:
  // keep_waiting decides whether a wait continues. Called about every 100 us while yielding, before
  // the first park and after every park. Returns false to end the wait, after recording the reason.
  struct Supervisor {
    void* self = nullptr;
    bool (*keep_waiting)(void* self, const WaitSite& site, bool first) = nullptr;
    // Set while the rank runs as a fiber, or drives a network. `fresh`: true for the first call of
    // a wait. Returns true if the thread has nothing else to do and may park briefly.
    bool (*suspend)(void* self, const WaitSite& site, bool fresh) = nullptr;
    // Called at the end of a wait that keep_waiting has let continue. May be null.
    void (*waited)(void* self, const WaitSite& site) = nullptr;
    // Called once in a wait that its spins did not end, before the thread yields, parks or
    // suspends: the place to leave a core that a peer uses (kernels/host/nudge.h). May be null.
    void (*before_yield)(void* self) = nullptr;
  };

  // Maximum turns per wait of the spin loop, then of sched_yield.
  struct Budget {
    int spins = 4000;
    int yields = 0;
    std::int64_t lost_turn = kLostTurn;  // ns of a yield, see base/yielder.h
  };

  BasicWaiter() = default;
  // light: those who ring may be light producers (base/doorbell.h).
  BasicWaiter(std::uint8_t* parked, std::uint32_t* bell, bool light = false)
      : parked_(parked), bell_(bell), light_(light) {}

  void set_supervisor(const Supervisor& supervisor) { supervisor_ = supervisor; }
  void set_budget(const Budget& budget) { budget_ = now_ = budget; }
  const Supervisor& supervisor() const { return supervisor_; }

  template <class Ready>
  bool until(Ready&& ready, const WaitSite& site) {
    if (ready()) return true;
    if (supervisor_.suspend == nullptr && !site.core_is_wanted) {
      for (int i = 0; i < now_.spins; ++i) {
        if (i >= kEagerSpins) A::relax();
        if (!ready()) continue;
        now_.spins = grown(now_.spins, budget_.spins);
        return true;
      }
    }
    return until_slow(ready, site);
  }

 private:
  static constexpr std::int64_t kLongestSleep = 100'000'000;          // ns
  static constexpr std::int64_t kLongestSleepBesideWork = 1'000'000;  // ns, after suspend()
  static constexpr int kYieldsPerCheck = 32;
  static constexpr int kEagerSpins = 16;  // the first spins make no pause: lowest latency
  static constexpr int kMinSpins = 32;
  static constexpr int kMinYields = 8;
  static constexpr int kPromptYields = 2;             // data this soon: the peer ran on this core
  static constexpr std::int64_t kSpin = 40;           // ns, about
  static constexpr std::int64_t kLatePark = 500'000;  // ns: longer than any spinning

  static int grown(int turns, int maximum) { return std::min(maximum, 2 * turns); }
  static int cut(int turns, int minimum) { return std::max(std::min(turns, minimum), turns / 4); }

  bool parks_at(int turn) const { return turn >= now_.yields || !yielder_.may_yield(); }
  // Adapts the budgets after a wait that ended in this turn of until_slow(). parked: ns that its
  // last park took; 0: it did not park.
  void learn(int turn, std::int64_t parked, const WaitSite& site) {
    if (supervisor_.suspend != nullptr) return;
    if (parks_at(turn)) {
      if (yielder_.may_yield()) now_.yields = cut(now_.yields, kMinYields);
      if (parked > 0 && !site.core_is_wanted) now_.spins = after_park(parked);
      return;
    }
    now_.yields = grown(now_.yields, budget_.yields);
    if (site.core_is_wanted) return;
    now_.spins =
        turn < kPromptYields ? cut(now_.spins, kMinSpins) : grown(now_.spins, budget_.spins);
  }
  int after_park(std::int64_t parked) const {
    if (parked > kLatePark)
      return std::max(now_.spins / 2, std::min(now_.spins, budget_.spins / 8));
    if (4 * parked < now_.spins * kSpin) return cut(now_.spins, kMinSpins);
    return grown(now_.spins, budget_.spins);
  }

  template <class Ready>
  [[gnu::noinline]] bool until_slow(Ready& ready, const WaitSite& site) {
    bool first = true;
    std::uint32_t seen = 0;
    std::int64_t parked = 0;
    if (supervisor_.before_yield != nullptr) supervisor_.before_yield(supervisor_.self);
    yielder_.begin_wait();
    for (int turn = 0;; ++turn) {
      const bool suspends = supervisor_.suspend != nullptr;
      const bool parks = !suspends && parks_at(turn);
      if (parks || suspends) seen = A::load_acquire(*bell_);
      if (parks || (turn > 0 && (suspends || turn % kYieldsPerCheck == 0))) {
        if (supervisor_.self != nullptr) {
          if (!supervisor_.keep_waiting(supervisor_.self, site, first)) return false;
          first = false;
        }
      }
      if (suspends) {
        if (supervisor_.suspend(supervisor_.self, site, turn == 0) && turn > 0)
          park<A>(*parked_, *bell_, seen, ready, kLongestSleepBesideWork, light_);
      } else if (parks) {
        const std::int64_t begun = A::now();
        park<A>(*parked_, *bell_, seen, ready, kLongestSleep, light_);
        parked = A::now() - begun;
      } else {
        yielder_.yield(budget_.lost_turn);
      }
      if (!ready()) continue;
      learn(turn, parked, site);
      if (!first && supervisor_.waited != nullptr) supervisor_.waited(supervisor_.self, site);
      return true;
    }
  }

  std::uint8_t* parked_ = nullptr;
  std::uint32_t* bell_ = nullptr;
  bool light_ = false;
  Supervisor supervisor_;
  Budget budget_;
  Budget now_;  // the part of budget_ that the next wait may use
  BasicYielder<A> yielder_;
};

using Waiter = BasicWaiter<>;

}  // namespace rondo
