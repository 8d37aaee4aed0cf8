// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/completion.h"

#include <utility>

#include "base/yielder.h"

namespace rondo {

bool Completion::finish(Status result, int source) {
  std::function<void()> watcher;
  {
    std::lock_guard lock(mutex_);
    if (finished_.load(std::memory_order_relaxed)) return false;
    result_ = std::move(result);
    source_ = source;
    finished_.store(true, std::memory_order_release);
    watcher = std::exchange(watcher_, nullptr);
  }
  changed_.notify_all();
  if (ended_) ended_(*this);
  if (watcher) watcher();
  return true;
}

// Polls longer than a message between two running ranks takes, but not noticeably long.
bool Completion::finished_soon() const {
  constexpr int kTurns = 100;
  Yielder yielder;
  for (int turn = 0; turn < kTurns && yielder.may_yield(); ++turn) {
    if (finished()) return true;
    if (help_) help_();
    yielder.yield();
  }
  return finished();
}

bool Completion::wait_until(std::chrono::steady_clock::time_point deadline) const {
  if (finished_soon()) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return finished(); });
}

void Completion::watch(std::function<void()> watcher) {
  {
    std::lock_guard lock(mutex_);
    if (!finished_.load(std::memory_order_relaxed)) {
      watcher_ = std::move(watcher);
      return;
    }
  }
  watcher();
}

}  // namespace rondo
