// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's clock_gettime(), which now_ns() and std::chrono::steady_clock read.
#include "tests/support/stepped_clock.h"

#include <dlfcn.h>
#include <time.h>

#include <cstdint>

namespace rondo::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

using Read = int (*)(clockid_t, timespec*);
const Read clock_of_libc = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "clock_gettime"));

thread_local std::int64_t step_ns = 0;  // 0: the real clock
thread_local std::int64_t stepped_ns = 0;

int read_clock(clockid_t which, timespec* now) {
  // Objects that are made before clock_of_libc read the clock, too.
  const Read read = clock_of_libc != nullptr
                        ? clock_of_libc
                        : reinterpret_cast<Read>(dlsym(RTLD_NEXT, "clock_gettime"));
  if (step_ns == 0 || which != CLOCK_MONOTONIC) return read(which, now);
  stepped_ns += step_ns;
  *now = {stepped_ns / kSecond, stepped_ns % kSecond};
  return 0;
}

}  // namespace

SteppedClock::SteppedClock(std::chrono::nanoseconds step) {
  timespec now{};
  read_clock(CLOCK_MONOTONIC, &now);
  stepped_ns = now.tv_sec * kSecond + now.tv_nsec;
  step_ns = step.count();
}

SteppedClock::~SteppedClock() { step_ns = 0; }

void SteppedClock::advance(std::chrono::nanoseconds by) { stepped_ns += by.count(); }

}  // namespace rondo::test

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t which,
                                                                    timespec* now) noexcept {
  return rondo::test::read_clock(which, now);
}
