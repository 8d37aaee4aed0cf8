// SPDX-License-Identifier: Apache-2.0
// CallOrder: runs the calls of one communicator in the order in which they were issued, whatever
// thread or stream runs them.
//
// A call takes a ticket when it is issued and waits for its turn before it runs. Guarantees: turns
// are in ticket order. Every ticket must be finished, also after an error; the destructor of Turn
// does this. No wake-up is lost: before a thread sleeps, it counts itself, makes a fence for all
// threads, and then checks the turn once more (tests/explorer shows that the fence is needed).
// Cost: one atomic addition if no other call is queued; a waiting thread sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/asymmetric_fence.h"
#include "base/doorbell.h"

namespace rondo {

// Atomics policy (base/atomics.h, base/doorbell.h) with the asymmetric fence, which needs no
// barrier on the frequent path (base/asymmetric_fence.h).
struct TurnAtomics : DoorbellAtomics {
  template <class T>
  static void store_before_loads(T& word, T value) {
    rondo::store_before_loads(std::atomic_ref<T>(word), value);
  }
  static void heavy_fence() { rondo::heavy_fence(); }
  static void add_seq_cst(std::uint32_t& word, std::uint32_t more) {
    std::atomic_ref<std::uint32_t>(word).fetch_add(more, std::memory_order_seq_cst);
  }
};

template <class A = TurnAtomics>
class BasicCallOrder {
 public:
  struct Words {
    std::uint64_t turn = 0;
    std::uint32_t sleepers = 0;
    std::uint32_t bell = 0;  // rung at the end of a turn if a thread sleeps
  };

  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }

  void wait_turn(std::uint64_t ticket) {
    if (A::load_acquire(words_.turn) != ticket) sleep_until(ticket);
  }

  void finish(std::uint64_t ticket) {
    A::store_before_loads(words_.turn, ticket + 1);
    if (A::load_seq_cst(words_.sleepers) != 0) ring<A>(words_.bell);
  }

  // True if all calls issued so far have finished.
  bool idle() const {
    return A::load_acquire(words_.turn) == next_.load(std::memory_order_acquire);
  }

  const Words& words() const { return words_; }

 private:
  static constexpr std::int64_t kLongestSleep = 100'000'000;  // ns

  // Reads the bell before the turn, so that a later ring ends the sleep at once.
  void sleep_until(std::uint64_t ticket) {
    A::add_seq_cst(words_.sleepers, 1);
    A::heavy_fence();
    for (;;) {
      const std::uint32_t seen = A::load_acquire(words_.bell);
      if (A::load_seq_cst(words_.turn) == ticket) break;
      A::wait(words_.bell, seen, kLongestSleep);
    }
    A::add_seq_cst(words_.sleepers, ~std::uint32_t{0});
  }

  std::atomic<std::uint64_t> next_{0};
  Words words_;
};

using CallOrder = BasicCallOrder<>;

// A ticket and its turn. If its call never runs, the destructor waits for the turn and finishes it.
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
