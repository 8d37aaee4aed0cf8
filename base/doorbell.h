// SPDX-License-Identifier: Apache-2.0
// Doorbell: how a producer wakes a consumer that sleeps. No system call while no consumer sleeps.
//
// Protocol (one doorbell per rank; any number of producers):
//   producer: store the data word (seq_cst); load `parked` (seq_cst); ring only if it is set.
//   consumer: read `bell`; check the events whose producers ring without reading `parked` (faults);
//             store `parked` = 1, fence (seq_cst); check its condition again; only then sleep, and
//             only while `bell` still has the value read.
// A light producer has no barrier of its own: it stores with release, then loads `parked`. Its
// consumers call fence_host() after their own fence, which is a barrier in the producer's thread.
// The ranks of a host agree whether they are light (HostRank::light).
// Guarantees: no wake-up is lost. At least one of producer and consumer sees the other's store. A
// ring between the read of `bell` and the sleep ends the sleep at once. Every sleep is bounded.
// Why a fence and not a seq_cst store: conditions are checked by acquire loads, which may overtake
// a seq_cst store (AArch64's ldapr). tests/explorer shows that each of these steps is needed.
// Cost: for the producer one barrier, unless it is light, and one load (of a line that stays shared
// while no consumer parks). Words are plain, so that they can be in shared memory. A is an Atomics
// policy (base/atomics.h) with wait and wake functions.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/asymmetric_fence.h"
#include "base/atomics.h"
#include "base/seconds.h"

namespace rondo {

// Futex calls on words in memory that several processes share. Every wait has a time limit.
//
// Sleeps while *word == expected, at most `nanoseconds`; returns early on a wake or a signal.
void futex_wait(std::uint32_t* word, std::uint32_t expected, std::int64_t nanoseconds);
void futex_wake_all(std::uint32_t* word);

struct FutexWait {
  std::uint32_t* word;
  std::uint32_t expected;
};
// Sleeps until one of at most 128 words changes, at most `nanoseconds`. Linux before 5.16 has no
// futex_waitv: there it watches only the first word, for at most one millisecond.
void futex_wait_any(std::span<const FutexWait> words, std::int64_t nanoseconds);

struct DoorbellAtomics : HostAtomics {
  static bool fence_producers() { return fence_host(); }
  static void wait(std::uint32_t& word, std::uint32_t expected, std::int64_t nanoseconds) {
    futex_wait(&word, expected, nanoseconds);
  }
  static void wake(std::uint32_t& word) { futex_wake_all(&word); }
  static void increment(std::uint32_t& word) {
    std::atomic_ref<std::uint32_t>(word).fetch_add(1, std::memory_order_release);
  }
  static void relax() { cpu_relax(); }
  static void yield() { sched_yield(); }
  static std::int64_t now() { return now_ns(); }
  // The core of this thread, + 1. No system call with glibc 2.35 and later.
  static std::uint32_t core() { return static_cast<std::uint32_t>(sched_getcpu() + 1); }
};

// Wakes the owner of the bell from a sleep that began, or will begin, with an older bell value.
template <class A>
void ring(std::uint32_t& bell) {
  A::increment(bell);
  A::wake(bell);
}

// The producer's store of its data word.
template <class A, class T>
void store_before_ring(T& word, T value, bool light) {
  if (light) {
    A::store_release(word, value);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not reorder either
  } else {
    A::store_seq_cst(word, value);
  }
}

// Wakes the owner of (parked, bell) if it sleeps. The caller has stored its data word seq_cst, or
// with store_before_ring() and the same `light`.
template <class A, class Flag>
void ring_if_parked(const Flag& parked, std::uint32_t& bell, bool light = false) {
  if ((light ? A::load_relaxed(parked) : A::load_seq_cst(parked)) != 0) ring<A>(bell);
}

// Sleeps until the bell rings, at most `nanoseconds`. Returns at once if the bell has rung since it
// was `seen`, or if ready() is true after `parked` is visible to all threads. light: some producer
// may be. If it cannot be fenced, this sleeps for a millisecond at most.
template <class A, class Flag, class Ready>
void park(Flag& parked, std::uint32_t& bell, std::uint32_t seen, Ready&& ready,
          std::int64_t nanoseconds, bool light = false) {
  A::store_relaxed(parked, Flag{1});
  A::fence_seq_cst();
  if (light && !A::fence_producers()) nanoseconds = std::min<std::int64_t>(nanoseconds, 1'000'000);
  if (!ready()) A::wait(bell, seen, nanoseconds);
  A::store_relaxed(parked, Flag{0});
}

}  // namespace rondo
