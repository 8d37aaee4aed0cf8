// SPDX-License-Identifier: Apache-2.0
// Yielder: yields of a waiting thread to the other ranks that may use its core.
//
// Among ranks a yield is the fastest way to hand a core over. Where another program uses the core,
// a yield gives it a whole turn, 1 to 3 ms on Linux 6.18. So a yield that took a turn is the last
// one of its wait, and the waits after it do without: more of them after each lost turn, fewer once
// a yield was short again. Such a wait sleeps instead: a thread that is woken runs soon.
// Guarantees: at least one wait of 1,024 tries a yield. Cost: a system call and one reading
// of the clock a yield.
//
//   yielder.begin_wait();
//   while (!ready()) if (yielder.may_yield()) yielder.yield(); else sleep();
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/doorbell.h"

namespace rondo {

inline constexpr std::int64_t kLostTurn = 1'000'000;  // ns of a yield: another program has run

template <class A = DoorbellAtomics>  // an Atomics policy, see base/doorbell.h
class BasicYielder {
 public:
  // Called before the first turn of a wait.
  void begin_wait() {
    since_ = 0;
    if (yieldless_waits_ > 0) --yieldless_waits_;
  }
  bool may_yield() const { return yieldless_waits_ == 0; }
  // lost_turn: ns. The time since the last yield of this wait counts too.
  void yield(std::int64_t lost_turn = kLostTurn) {
    const std::int64_t begun = since_ == 0 ? A::now() : since_;
    A::yield();
    since_ = A::now();
    if (since_ - begun < lost_turn) {
      after_lost_turn_ = std::max(after_lost_turn_ / 2, kMinWaits);
    } else {
      yieldless_waits_ = after_lost_turn_;
      after_lost_turn_ = std::min(4 * after_lost_turn_, kMaxWaits);
    }
  }

 private:
  static constexpr int kMinWaits = 16, kMaxWaits = 1024;  // without a yield, after a lost turn

  std::int64_t since_ = 0;           // when the last yield of this wait ended; 0 before the first
  int yieldless_waits_ = 0;          // that are to come
  int after_lost_turn_ = kMinWaits;  // of them after the next lost turn
};

using Yielder = BasicYielder<>;

}  // namespace rondo
