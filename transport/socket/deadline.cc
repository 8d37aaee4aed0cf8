#include "transport/socket/deadline.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace rondo::net {
namespace {

constexpr auto kAbortPeriod = std::chrono::milliseconds(50);
constexpr auto kLongest = std::chrono::hours(1);

constexpr auto kForever = std::chrono::hours(24 * 365);

}  // namespace

Deadline Deadline::of(std::chrono::nanoseconds timeout, std::function<bool()> aborted) {
  const auto bounded = std::clamp<std::chrono::nanoseconds>(timeout, {}, kForever);
  return {Clock::now() + bounded, std::move(aborted)};
}

Result<bool> wait_until(std::span<pollfd> entries, Clock::time_point until,
                        const Deadline& deadline, std::string_view what) {
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
