// WakeSource, Sleeper: how a thread that has nothing to move sleeps until something may move.
//
// A network may have to be asked for a wake-up: a completion channel of InfiniBand and a worker of
// UCX make their descriptors readable only by what comes after that, and what came just before is
// to be looked at instead. So add() arms a source before its descriptor is used, and nobody else
// sleeps on a WakeSource's descriptor (.ci/lint.py looks for it). Cost: sleep() is one system call;
// nothing is allocated.
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

class WakeSource {
 public:
  virtual ~WakeSource() = default;
  // Before every sleep on poll_fd(), on the thread that owns the source, after a progress() that
  // moved nothing: asks for a wake-up. False: something moves now, so do not sleep.
  virtual bool arm() = 0;
  // Readable for poll(2) and epoll(7) when something may move that could not at arm(). -1: no such
  // descriptor.
  virtual int poll_fd() const = 0;
};

// Several sources as one: the descriptor of the only one, or an epoll descriptor of all.
class WakeGroup final : public WakeSource {
 public:
  static constexpr std::size_t kMax = 2;
  Status add(WakeSource& source);
  bool arm() override;
  int poll_fd() const override;

 private:
  std::array<WakeSource*, kMax> sources_{};
  std::size_t count_ = 0;
  Fd events_;  // from the second one on
};

class Sleeper {
 public:
  // False: something moves now, so do not sleep.
  bool add(WakeSource& source) {
    if (!source.arm()) return false;
    add_fd(source.poll_fd());
    return true;
  }
  // What somebody else makes readable. Beyond kMax descriptors, the sleep's limit has to do.
  void add_fd(int fd) {
    if (fd >= 0 && count_ < kMax) entries_[count_++] = {fd, POLLIN, 0};
  }
  // Until one of them is readable, no longer than that. True: the first one that was added is.
  bool sleep(std::chrono::nanoseconds at_most);

 private:
  static constexpr std::size_t kMax = 10;
  std::array<pollfd, kMax> entries_;
  std::size_t count_ = 0;
};

}  // namespace rondo::net
