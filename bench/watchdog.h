// SPDX-License-Identifier: Apache-2.0
// Watchdog: calls `expired` on its own thread if disarm() is not called within the seconds given to
// arm(). Used for -T; without -T this thread does not exist.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace rondo::bench {

class Watchdog {
 public:
  // In which the watchdogs of all ranks fire, since ranks begin a size together.
  static constexpr double kGraceSeconds = 1;

  explicit Watchdog(std::function<void()> expired)
      : expired_(std::move(expired)), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void arm(double seconds) {
    std::lock_guard lock(mutex_);
    until_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    changed_.notify_all();
  }
  void disarm() {
    std::lock_guard lock(mutex_);
    until_.reset();
    changed_.notify_all();
  }
  // Waits for it only while it is armed, and at most this long if its time is not over by then.
  bool fires_within(double seconds) {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return fired_ || !until_; };
    changed_.wait_for(lock, std::chrono::duration<double>(seconds), is_over);
    if (until_ && Clock::now() >= *until_) changed_.wait(lock, is_over);
    return fired_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (!until_) {
        changed_.wait(lock);
      } else if (const auto until = *until_; Clock::now() < until) {
        changed_.wait_until(lock, until);
      } else {
        until_.reset();
        fired_ = true;
        changed_.notify_all();
        lock.unlock();
        expired_();
        lock.lock();
      }
    }
  }

  std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> until_;
  bool fired_ = false, stop_ = false;
  std::thread thread_;  // last: starts after the others are initialised
};

}  // namespace rondo::bench
