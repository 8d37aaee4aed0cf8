// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/socket.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <ctime>
#include <mutex>

#include "base/fd.h"

namespace rondo::net {
namespace {

// One bit per descriptor that a forked child has to close. Atomics, because the child of a process
// with threads must not take a lock.
constexpr int kWords = 1024;
std::atomic<std::uint64_t> open_sockets[kWords];

void close_in_child() {
  for (int word = 0; word < kWords; ++word) {
    std::uint64_t bits = open_sockets[word].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) ::close(word * 64 + __builtin_ctzll(bits));
  }
}

bool in_table(int fd) { return fd >= 0 && fd < kWords * 64; }

}  // namespace

Socket::Socket(int fd) : fd_(above_standard(fd)), born_(fork_generation()) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, close_in_child); });
  if (in_table(fd_)) open_sockets[fd_ / 64].fetch_or(1ull << fd_ % 64, std::memory_order_relaxed);
}

void Socket::reset() {
  const int fd = get();
  fd_ = -1;
  if (fd < 0) return;
  if (in_table(fd)) open_sockets[fd / 64].fetch_and(~(1ull << fd % 64), std::memory_order_relaxed);
  ::close(fd);
}

namespace {

constexpr auto kAbortPeriod = std::chrono::milliseconds(50);
constexpr auto kLongest = std::chrono::hours(1);

constexpr auto kYear = std::chrono::hours(24 * 365);

}  // namespace

Deadline Deadline::of(std::chrono::nanoseconds timeout, std::function<bool()> aborted) {
  const auto bounded = std::clamp<std::chrono::nanoseconds>(timeout, {}, kYear);
  return {Clock::now() + bounded, std::move(aborted)};
}

Result<bool> wait_until(std::span<pollfd> entries, Clock::time_point until,
                        const Deadline& deadline, std::string_view what) {
  assert(!what.empty());
  for (;;) {
    if (deadline.aborted && deadline.aborted())
      return fail(StatusCode::kInvalidUsage, "aborted by this process while {}", what);
    const auto now = Clock::now();
    Clock::duration left = std::min(until, deadline.at) - now;
    left = std::clamp<Clock::duration>(left, Clock::duration::zero(), kLongest);
    if (deadline.aborted) left = std::min<Clock::duration>(left, kAbortPeriod);
    const auto nanoseconds = std::chrono::nanoseconds(left).count();
    const timespec timeout{static_cast<time_t>(nanoseconds / 1'000'000'000),
                           static_cast<long>(nanoseconds % 1'000'000'000)};
    const int ready = ::ppoll(entries.data(), entries.size(), &timeout, nullptr);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "poll failed while {}", what);
    const auto after = Clock::now();
    if (after >= deadline.at) return fail(StatusCode::kTimeout, "timed out while {}", what);
    if (after >= until) return false;
  }
}

Status wait_ready(std::span<pollfd> entries, const Deadline& deadline, std::string_view what) {
  RONDO_TRY([[maybe_unused]] const bool ready, wait_until(entries, deadline.at, deadline, what));
  return ok_status();
}

}  // namespace rondo::net
