// SPDX-License-Identifier: Apache-2.0
#include "base/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace rondo {
namespace {

// The kernel's struct futex_waitv (uapi/linux/futex.h); older headers do not have it.
struct WaitVector {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};
constexpr std::uint32_t kFutex32 = 2;
constexpr std::size_t kMaxWords = 128;

timespec relative(std::int64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / 1'000'000'000),
          static_cast<long>(nanoseconds % 1'000'000'000)};
}

timespec deadline_after(std::int64_t nanoseconds) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return relative(now.tv_sec * 1'000'000'000LL + now.tv_nsec + nanoseconds);
}

}  // namespace

void futex_wait(std::uint32_t* word, std::uint32_t expected, std::int64_t nanoseconds) {
  const timespec limit = relative(nanoseconds);
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(std::uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait_any(std::span<const FutexWait> words, std::int64_t nanoseconds) {
  static std::atomic<bool> supported{true};
  if (words.empty()) return;
  if (words.size() > 1 && supported.load(std::memory_order_relaxed)) {
    WaitVector vector[kMaxWords];
    const std::size_t count = std::min(words.size(), kMaxWords);
    for (std::size_t i = 0; i < count; ++i)
      vector[i] = {words[i].expected, reinterpret_cast<std::uintptr_t>(words[i].word), kFutex32, 0};
    const timespec limit = deadline_after(nanoseconds);
    if (syscall(SYS_futex_waitv, vector, count, 0, &limit, CLOCK_MONOTONIC) >= 0) return;
    if (errno != ENOSYS) return;
    supported.store(false, std::memory_order_relaxed);
  }
  const std::int64_t maximum = words.size() > 1 ? 1'000'000 : nanoseconds;
  futex_wait(words[0].word, words[0].expected, std::min(nanoseconds, maximum));
}

}  // namespace rondo
