// Deadline: how long a socket call may wait: until a deadline, or until its caller gives up.
//
// Guarantees: wait_ready() survives signals and returns at most 50 ms after `aborted` turned true.
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

  // From now on; at most a year.
  static Deadline of(std::chrono::nanoseconds timeout, std::function<bool()> aborted = {});
  Deadline later(Clock::duration by) const { return {at + by, aborted}; }
};

// Returns when an entry has events (true) or at `until` (false). kTimeout at the deadline,
// kInvalidUsage when aborted; `what` completes "timed out while ...".
Result<bool> wait_until(std::span<pollfd> entries, Clock::time_point until,
                        const Deadline& deadline, std::string_view what);
Status wait_ready(std::span<pollfd> entries, const Deadline& deadline, std::string_view what);

}  // namespace rondo::net
