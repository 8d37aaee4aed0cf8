// SPDX-License-Identifier: Apache-2.0
// poll_until(): checks a condition again and again, with sleeps between, where no doorbell rings
// for it: streams, threads that end, words that other processes and kernels write. Not for data
// paths; there the Waiter waits (base/wait.h).
#pragma once

#include <chrono>
#include <thread>

namespace rondo {

inline std::chrono::steady_clock::time_point seconds_from_now(double seconds) {
  using Clock = std::chrono::steady_clock;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

constexpr auto kNoDeadline = std::chrono::steady_clock::time_point::max();

// Returns false if the deadline passed first. Without a deadline the condition must become true.
template <class Condition>
bool poll_until(Condition&& holds, std::chrono::steady_clock::time_point deadline = kNoDeadline,
                std::chrono::microseconds nap = std::chrono::microseconds(100)) {
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(nap);
  }
  return true;
}

}  // namespace rondo
