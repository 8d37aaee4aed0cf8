// SPDX-License-Identifier: Apache-2.0
// WakeSource, Sleeper: let a thread that has nothing to move sleep until something may move.
//
// Some networks wake a thread only for events after they were armed (InfiniBand completion
// channels, UCX workers); earlier events must be polled. So add() arms a source before its
// descriptor is used. No other code sleeps on that descriptor (.ci/lint.py checks it). Cost:
// sleep() is one system call; no allocation.
//
//   net::Sleeper sleeper;
//   if (sleeper.add(*links) && sleeper.add(*proxy)) sleeper.sleep(std::chrono::milliseconds(1));
#pragma once

#include <poll.h>

#include <array>
#include <chrono>

#include "base/fd.h"
#include "base/result.h"

namespace rondo::net {

// PollTurns: when the thread that drives a network polls which of its links can make progress.
//
// It polls whenever nothing moved. It also polls now and then while one link keeps moving:
// otherwise the other links, and new ones that peers open, would wait until that link is idle.
// Cost: one system call every kBusyTurns turns of a busy network.
//
//   const bool moved = all();
//   if (!turns_.due(moved)) return moved;
//   return (network->poll() && all()) || moved;
class PollTurns {
 public:
  static constexpr int kBusyTurns = 32;

  bool due(bool moved) {
    busy_ = moved ? busy_ + 1 : 0;
    if (moved && busy_ < kBusyTurns) return false;
    busy_ = 0;
    return true;
  }

 private:
  int busy_ = 0;
};

class WakeSource {
 public:
  virtual ~WakeSource() = default;
  // Requests a wake-up. Call it before every sleep on poll_fd(), on the thread that owns the
  // source, after a progress() that moved nothing. False: something moves now, so do not sleep.
  virtual bool arm() = 0;
  // Becomes readable (poll(2), epoll(7)) when something may move that could not move at arm(). -1:
  // no descriptor.
  virtual int poll_fd() const = 0;
};

// Several sources as one. With one source, uses its descriptor; else an epoll descriptor.
class WakeGroup final : public WakeSource {
 public:
  static constexpr std::size_t kMax = 2;
  Status add(WakeSource& source);
  bool arm() override;
  int poll_fd() const override;

 private:
  std::array<WakeSource*, kMax> sources_{};
  std::size_t count_ = 0;
  Fd events_;  // epoll; set from the second source on
};

class Sleeper {
 public:
  // False: something moves now, so do not sleep.
  bool add(WakeSource& source) {
    if (!source.arm()) return false;
    add_fd(source.poll_fd());
    return true;
  }
  // A descriptor that needs no arming. Descriptors beyond kMax are ignored: only the time limit of
  // sleep() ends the wait for them.
  void add_fd(int fd) {
    if (fd >= 0 && count_ < kMax) entries_[count_++] = {fd, POLLIN, 0};
  }
  // Sleeps until a descriptor is readable, but not longer. True: the first added one is readable.
  bool sleep(std::chrono::nanoseconds at_most);

 private:
  static constexpr std::size_t kMax = 10;
  std::array<pollfd, kMax> entries_;
  std::size_t count_ = 0;
};

}  // namespace rondo::net
