// Turns: makes the jobs of one communicator run in the order in which they were issued, whatever
// threads run them.
//
// Guarantees: pass() by the holder of turn t lets exactly turn t + 1 go. Every turn taken must be
// waited for and passed. Cost: two uncontended atomic operations where nobody waits.
//
//   const auto turn = turns.take();
//   turns.wait(turn);
//   ... run ...
//   turns.pass();
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace rondo::api {

class Turns {
 public:
  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }

  void wait(std::uint64_t turn) {
    if (serving_.load(std::memory_order_acquire) == turn) return;
    std::unique_lock lock(mutex_);
    waiters_.fetch_add(1, std::memory_order_seq_cst);  // before the look at serving_: see pass()
    changed_.wait(lock, [&] { return serving_.load(std::memory_order_seq_cst) == turn; });
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }

  void pass() {
    serving_.fetch_add(1, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  bool idle() const {
    return serving_.load(std::memory_order_acquire) == next_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> serving_{0};
  std::atomic<int> waiters_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace rondo::api
