// SPDX-License-Identifier: Apache-2.0
// ticks(): the cheapest clock of this host, for records of calls.
//
// Guarantees: processes of a host read the same counter, and it never runs backwards where the
// kernel itself uses it as its clock (clocksource tsc). Its rate is constant; read_ticks() pairs it
// with CLOCK_MONOTONIC, and two such pairs give the rate. Cost: 7 ns on x86 (rdtsc), and it delays
// nothing that does not need its value.
#pragma once

#include <cstdint>

#include "base/seconds.h"

namespace rondo {

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return static_cast<std::uint64_t>(now_ns());
#endif
}

struct TickReading {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;
};

// One moment by both clocks: the closest of a few readings.
inline TickReading read_ticks() {
  TickReading best;
  std::uint64_t width = ~std::uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = ticks();
    const std::int64_t now = now_ns();
    const std::uint64_t taken = ticks() - before;
    if (taken >= width) continue;
    width = taken;
    best = {before + taken / 2, now};
  }
  return best;
}

}  // namespace rondo
