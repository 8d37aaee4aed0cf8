// Waiter: the one place in Rondo where a rank waits for other ranks.
//
// A wait spins, then yields the core, then parks on the rank's doorbell, at most 100 ms at a time.
// How long it does the first two, it learns from the waits before: where data came as soon as the
// core was yielded, the peer wants this very core, so spinning is cut short; where only sleeping
// helped, yielding is. Both grow back with every wait in which they were enough.
// Off the fast path it asks its supervisor again and again whether to go on: that is where
// deadlines, aborts, faults, dead peers and sockets are looked after (installed by collectives/). A
// rank that runs as a fiber suspends instead of yielding, so that others of its thread can run.
// Guarantees: until() returns false only if the supervisor gave up; nobody waits without being
// supervised; a ring after something that the supervisor looks for (a fault) is never slept
// through. Cost: while data is ready, one evaluation of the condition; no clock and no system call
// before the spin budget is spent.
//
//   if (!waiter.until([&] { return load_acquire(word) >= target; }, {peer, step})) return;
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/doorbell.h"

namespace rondo {

// What a wait is for; read by the supervisor and shown in diagnoses.
struct WaitSite {
  int peer;              // rank in the host view, or -1
  std::uint64_t step;    // publication or slot that is awaited
  int global_rank = -1;  // rank in the communicator, where the peer may be on another host
  // Whether the wait needs that rank of the communicator too; null: it needs nobody else.
  bool (*needs)(const void* self, int global_rank) = nullptr;
  const void* self = nullptr;
  // That rank's program takes no part: what is waited for is the network's.
  bool of_network = false;
};

template <class A = DoorbellAtomics>  // an Atomics policy, see base/doorbell.h
class BasicWaiter {
 public:
  // Decides whether a wait goes on. Called about every 100 microseconds while yielding, before the
  // first park and after every park. Returns false to end the wait (and has recorded why).
  struct Supervisor {
    void* self = nullptr;
    bool (*keep_waiting)(void* self, const WaitSite& site, bool first) = nullptr;
    // Set while the rank runs as a fiber; `fresh` on the first call of a wait.
    void (*suspend)(void* self, bool fresh) = nullptr;
  };

  // The longest that a wait does what: turns of the spin loop, then turns of sched_yield (at least
  // one).
  struct Budget {
    int spins = 4000;
    int yields = 200;
  };

  BasicWaiter() = default;
  BasicWaiter(std::uint8_t* parked, std::uint32_t* bell) : parked_(parked), bell_(bell) {}

  void set_supervisor(const Supervisor& supervisor) { supervisor_ = supervisor; }
  void set_budget(const Budget& budget) { budget_ = now_ = budget; }
  const Supervisor& supervisor() const { return supervisor_; }

  template <class Ready>
  bool until(Ready&& ready, const WaitSite& site) {
    if (ready()) return true;
    if (supervisor_.suspend == nullptr) {
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
  static constexpr std::int64_t kLongestSleep = 100'000'000;  // ns
  static constexpr int kYieldsPerCheck = 32;
  static constexpr int kEagerSpins = 16;  // without a pause: what is on its way is seen at once
  static constexpr int kMinSpins = 32;
  static constexpr int kMinYields = 8;
  static constexpr int kPromptYields = 2;  // so soon only the peer can have had the core

  static int grown(int turns, int most) { return std::min(most, 2 * turns); }
  static int cut(int turns, int fewest) { return std::max(std::min(turns, fewest), turns / 4); }

  // After a wait that was over in this turn of until_slow().
  void learn(int turn) {
    if (supervisor_.suspend != nullptr) return;
    if (turn >= now_.yields) {
      now_.yields = cut(now_.yields, kMinYields);
    } else {
      now_.yields = grown(now_.yields, budget_.yields);
      now_.spins =
          turn < kPromptYields ? cut(now_.spins, kMinSpins) : grown(now_.spins, budget_.spins);
    }
  }

  template <class Ready>
  [[gnu::noinline]] bool until_slow(Ready& ready, const WaitSite& site) {
    bool first = true;
    std::uint32_t seen = 0;
    for (int turn = 0;; ++turn) {
      if (supervisor_.suspend != nullptr) {
        supervisor_.suspend(supervisor_.self, turn == 0);
      } else if (turn < now_.yields) {
        A::yield();
      } else {
        park<A>(*parked_, *bell_, seen, ready, kLongestSleep);
      }
      if (ready()) {
        learn(turn);
        return true;
      }
      const bool parks_next = supervisor_.suspend != nullptr || turn + 1 >= now_.yields;
      if (!parks_next && turn % kYieldsPerCheck != kYieldsPerCheck - 1) continue;
      seen = A::load_acquire(*bell_);
      if (supervisor_.self == nullptr) continue;
      if (!supervisor_.keep_waiting(supervisor_.self, site, first)) return false;
      first = false;
    }
  }

  std::uint8_t* parked_ = nullptr;
  std::uint32_t* bell_ = nullptr;
  Supervisor supervisor_;
  Budget budget_;
  Budget now_;  // of it, what the next wait may use
};

using Waiter = BasicWaiter<>;

}  // namespace rondo
