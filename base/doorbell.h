// Doorbell: how a producer wakes a consumer that sleeps, without a system call while nobody does.
//
// Protocol (one doorbell per rank; any number of producers):
//   producer: store the data word (seq_cst); load `parked` (seq_cst); ring only if it is set.
//   consumer: read `bell`; store `parked` = 1 (seq_cst); check all its conditions again; only then
//             sleep, and only while `bell` still has the value read.
// Guarantees: no wake-up is lost: of the two seq_cst pairs at least one side sees the other, and a
// ring between reading `bell` and sleeping makes the sleep return at once. Every sleep is bounded.
// Cost: for the producer one barrier and one load (of a line that stays shared while nobody parks).
// Words are plain so that they may lie in shared memory; A is an Atomics policy (base/atomics.h)
// extended with wait(word, expected, ns) and wake(word).
#pragma once

#include <cstdint>

#include "base/atomics.h"
#include "base/futex.h"

namespace rondo {

struct DoorbellAtomics : HostAtomics {
  static void wait(std::uint32_t& word, std::uint32_t expected, std::int64_t nanoseconds) {
    futex_wait(&word, expected, nanoseconds);
  }
  static void wake(std::uint32_t& word) { futex_wake_all(&word); }
  static void increment(std::uint32_t& word) {
    std::atomic_ref<std::uint32_t>(word).fetch_add(1, std::memory_order_seq_cst);
  }
};

// Wakes the owner of (parked, bell) if it sleeps. The caller has stored its data word seq_cst.
template <class A, class Flag>
void ring_if_parked(const Flag& parked, std::uint32_t& bell) {
  if (A::load_seq_cst(parked) == 0) return;
  A::increment(bell);
  A::wake(bell);
}

// Sleeps until rung, at most nanoseconds, unless ready() holds once `parked` is visible to all.
template <class A, class Flag, class Ready>
void park(Flag& parked, std::uint32_t& bell, Ready&& ready, std::int64_t nanoseconds) {
  const std::uint32_t seen = A::load_acquire(bell);
  A::store_seq_cst(parked, Flag{1});
  if (!ready()) A::wait(bell, seen, nanoseconds);
  A::store_relaxed(parked, Flag{0});
}

}  // namespace rondo
