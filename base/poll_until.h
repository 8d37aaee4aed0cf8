// poll_until(): looks at a condition again and again, with naps between, where nobody rings for it:
// streams, threads that end, words that other processes and kernels write. Off every data path;
// there the Waiter waits (base/wait.h).
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

// False: the deadline came first. Without one, the condition itself must come to an end.
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
