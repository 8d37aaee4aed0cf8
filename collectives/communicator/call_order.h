// CallOrder: calls of one communicator run in the order in which they were made, whatever thread or
// stream carries them out.
//
// A call takes a ticket where it is made and waits for its turn where it runs. Guarantees: turns
// come in ticket order; a ticket that was taken must be finished, also after an error: a Turn does
// that wherever it ends. Cost: one atomic addition while nothing else is queued; a waiting thread
// sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/asymmetric_fence.h"

namespace rondo {

class CallOrder {
 public:
  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }

  void wait_turn(std::uint64_t ticket) {
    if (turn_.load(std::memory_order_acquire) != ticket) sleep_until(ticket);
  }

  void finish(std::uint64_t ticket) {
    store_before_loads(turn_, ticket + 1);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
  }

  // Whether all calls made so far have run.
  bool idle() const {
    return turn_.load(std::memory_order_acquire) == next_.load(std::memory_order_acquire);
  }

 private:
  void sleep_until(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    heavy_fence();
    turned_.wait(lock, [&] { return turn_.load(std::memory_order_seq_cst) == ticket; });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  // The lock, so that a sleeper is either before its look at the turn or already asleep.
  void wake() {
    { std::lock_guard lock(mutex_); }
    turned_.notify_all();
  }

  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> turn_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable turned_;
};

// A ticket and its turn. Where its call never runs, its end waits until the turn has come.
class Turn {
 public:
  Turn() = default;
  explicit Turn(CallOrder& order) : order_(&order), ticket_(order.take()) {}
  Turn(Turn&& other) noexcept
      : order_(std::exchange(other.order_, nullptr)), ticket_(other.ticket_) {}
  Turn& operator=(Turn&& other) noexcept {
    std::swap(order_, other.order_);
    std::swap(ticket_, other.ticket_);
    return *this;
  }
  ~Turn() { finish(); }

  void wait() {
    if (order_ != nullptr) order_->wait_turn(ticket_);
  }
  void finish() {
    if (order_ == nullptr) return;
    order_->wait_turn(ticket_);
    std::exchange(order_, nullptr)->finish(ticket_);
  }

 private:
  CallOrder* order_ = nullptr;
  std::uint64_t ticket_ = 0;
};

}  // namespace rondo
