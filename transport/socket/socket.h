// SPDX-License-Identifier: Apache-2.0
// Socket: an owned descriptor of a socket (or eventfd) that a forked child does not keep open.
//
// Guarantees: the descriptor is 3 or above (base/fd.h). fork() closes it in the child, so that
// peers see the end of this process even while its children live on. In the child get() is -1 and
// nothing is closed twice. (Descriptors above 65535 are closed only on exec.) Cost: one atomic
// operation at open and at close.
//
//   Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "base/process.h"
#include "base/result.h"

namespace rondo::net {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), born_(other.born_) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      born_ = other.born_;
    }
    return *this;
  }
  ~Socket() { reset(); }

  int get() const { return born_ == fork_generation() ? fd_ : -1; }
  bool valid() const { return get() >= 0; }
  explicit operator bool() const { return valid(); }
  void reset();

 private:
  int fd_ = -1;
  std::uint32_t born_ = 0;  // fork_generation() at open
};

// Deadline: limits the wait of a socket call: until a point in time, or until the caller aborts.
//
// Guarantees: wait_ready() survives signals and returns within 50 ms after `aborted` becomes true.
//
//   pollfd entry{socket.get(), POLLIN, 0};
//   RONDO_CHECK_OK(wait_ready({&entry, 1}, deadline, "waiting for the answer of rank 3"));
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
