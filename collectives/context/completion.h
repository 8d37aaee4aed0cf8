// SPDX-License-Identifier: Apache-2.0
// Completion: the result of one asynchronous operation, for any thread.
//
// Guarantees: only the first finish() has an effect. After finished() returns true, the thread sees
// all writes before finish(). The watcher is called once: by the thread that finishes, or by
// watch() if the operation has already finished. Cost: finished() is one load; only finish(),
// watch() and a wait that sleeps take a lock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "base/result.h"

namespace rondo {

class Completion {
 public:
  // help: makes progress on the work; a waiting thread calls it before it sleeps. ended: called
  // once, by the thread that finishes.
  explicit Completion(std::function<void()> help = {},
                      std::function<void(const Completion&)> ended = {})
      : help_(std::move(help)), ended_(std::move(ended)) {}

  // True if this call was the first.
  bool finish(Status result, int source = -1);
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // False if the deadline passes first.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;

  // Valid once finished.
  const Status& result() const { return result_; }
  int source() const { return source_; }  // sending rank of a receive, else -1

  void watch(std::function<void()> watcher);

 private:
  bool finished_soon() const;

  const std::function<void()> help_;
  const std::function<void(const Completion&)> ended_;
  std::atomic<bool> finished_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Status result_;
  int source_ = -1;
  std::function<void()> watcher_;
};

}  // namespace rondo
