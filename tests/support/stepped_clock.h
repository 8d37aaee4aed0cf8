// SPDX-License-Identifier: Apache-2.0
// SteppedClock: a thread's own monotonic clock. While one exists, each reading by its thread is one
// step later than the reading before it, whatever time has passed.
//
//   const SteppedClock clock(std::chrono::milliseconds(100));
//   const std::int64_t begun = now_ns();
//   comm.run(...);                        // ends by its timeout
//   EXPECT_LT(now_ns() - begun, ...);     // no busy machine can make it later
// Guarantees: a wait whose checks read the clock reaches a deadline after as many checks on every
// machine. Other threads have the real clock; so have sleeps. Only for waits that check a condition
// again and again: poll() and epoll_wait() with a time sleep that time in earnest. Cost: a call
// through a pointer for every reading of the program's clocks.
#pragma once

#include <chrono>

namespace rondo::test {

class SteppedClock {
 public:
  explicit SteppedClock(std::chrono::nanoseconds step);
  ~SteppedClock();
  SteppedClock(const SteppedClock&) = delete;
  SteppedClock& operator=(const SteppedClock&) = delete;

  // Besides the steps: lets that time pass.
  void advance(std::chrono::nanoseconds by);
};

}  // namespace rondo::test
