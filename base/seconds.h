// SPDX-License-Identifier: Apache-2.0
// Seconds as a duration with which clock arithmetic cannot overflow; the clocks of time stamps.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace rondo {

inline constexpr double kMaxSeconds = 366 * 86400.0;  // one year: in practice no limit

// At most one year; 0 if `seconds` is negative or NaN.
inline std::chrono::nanoseconds to_nanoseconds(double seconds) {
  if (!(seconds > 0)) return {};
  const double bounded = seconds < kMaxSeconds ? seconds : kMaxSeconds;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(bounded * 1e9));
}

// CLOCK_MONOTONIC: all processes of a host share it, and it cannot be set.
inline std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Time for which the calling thread has run on a core. A system call.
inline std::int64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace rondo
