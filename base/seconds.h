// Seconds as people write them, as a duration that no arithmetic on clocks can overflow; the clock.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace rondo {

inline constexpr double kMaxSeconds = 366 * 86400.0;  // a year: in practice no limit

// At most a year; 0 for what is negative or not a number.
inline std::chrono::nanoseconds to_nanoseconds(double seconds) {
  if (!(seconds > 0)) return {};
  const double bounded = seconds < kMaxSeconds ? seconds : kMaxSeconds;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(bounded * 1e9));
}

// Of the clock that all processes of a host share and nobody sets.
inline std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace rondo
