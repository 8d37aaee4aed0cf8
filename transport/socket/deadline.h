// Deadline: limits the wait of a socket call: until a point in time, or until the caller aborts.
//
// Guarantees: wait_ready() survives signals and returns within 50 ms after `aborted` becomes true.
//
//   pollfd entry{socket.get(), POLLIN, 0};
//   RONDO_CHECK_OK(wait_ready({&entry, 1}, deadline, "waiting for the answer of rank 3"));
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace rondo::net {

using Clock = std::chrono::steady_clock;

struct Deadline {
  Clock::time_point at;
  std::function<bool()> aborted;  // may be empty

  // `timeout` from now; at most one year.
  static Deadline of(std::chrono::nanoseconds timeout, std::function<bool()> aborted = {});
  Deadline later(Clock::duration by) const { return {at + by, aborted}; }
};

// True when an entry has events; false at `until`. kTimeout at the deadline, kInvalidUsage when
// aborted. `what` completes "timed out while ...".
Result<bool> wait_until(std::span<pollfd> entries, Clock::time_point until,
                        const Deadline& deadline, std::string_view what);
Status wait_ready(std::span<pollfd> entries, const Deadline& deadline, std::string_view what);

}  // namespace rondo::net
