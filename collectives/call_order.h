// CallOrder: calls of one communicator run in the order in which they were made, whatever thread or
// stream carries them out.
//
// A call takes a ticket where it is made and waits for its turn where it runs. Guarantees: turns
// come in ticket order; a ticket that was taken must be finished, also after an error. Cost: two
// atomic operations while nothing else is queued; a waiting thread sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace rondo {

class CallOrder {
 public:
  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }

  void wait_turn(std::uint64_t ticket) const {
    for (;;) {
      const std::uint64_t now = turn_.load(std::memory_order_acquire);
      if (now == ticket) return;
      turn_.wait(now, std::memory_order_acquire);  // of this process alone, so it may be used here
    }
  }

  void finish(std::uint64_t ticket) {
    turn_.store(ticket + 1, std::memory_order_release);
    turn_.notify_all();
  }

  // Whether all calls made so far have run.
  bool idle() const {
    return turn_.load(std::memory_order_acquire) == next_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace rondo
