// Completion: the end of one piece of work that somebody else carries out, seen from any thread.
//
// Guarantees: the first finish() counts, later ones change nothing; a thread that has seen
// finished() sees what was written before finish(). Watchers are called once, by the thread that
// finishes, or at once where it is finished already. Cost: finished() is one load; a lock only to
// wait and to finish.
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
  // help: makes progress on the work; a waiting thread calls it until sleeping is cheaper.
  explicit Completion(std::function<void()> help = {}) : help_(std::move(help)) {}

  // True for the call that counted.
  bool finish(Status result, int source = -1);
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // False when the deadline came first.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;

  // Once finished.
  const Status& result() const { return result_; }
  int source() const { return source_; }  // of a receive: the rank whose message it was

  void watch(std::function<void()> watcher);

 private:
  bool finished_soon() const;

  const std::function<void()> help_;
  std::atomic<bool> finished_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Status result_;
  int source_ = -1;
  std::function<void()> watcher_;
};

}  // namespace rondo
