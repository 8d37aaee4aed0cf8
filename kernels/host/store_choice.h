// SPDX-License-Identifier: Apache-2.0
// StoreChoice: whether a rank stores data for its peers through its cache or past it.
//
// A store into a line that a reader's cache holds waits until that core has given the line up. On
// cores that are near (they share a cache) that is cheap, and the reader then takes the data from
// the writer's cache. On cores that are far, it is most of a call. There non-temporal stores are up
// to ten times faster for the writer, and the reader takes the data from memory.
//
// A rank has a choice for each peer that alone reads what it stores (slots of connections), and one
// for what several peers read, by the farthest of them.
//
// The choice begins with the exchange of a cache line that was measured at init (core_distance.h).
// Later the rank's own copies decide, because threads move and so do the cores of a virtual
// machine. Three slow copies in a row through the cache begin the other way; there one copy in
// 10 ms goes through the cache. Past it must be faster by more than what readers lose, because the
// source may be what is slow. Of a copy that helper threads share, the rank's own part is timed:
// what a store costs does not depend on how many threads store at once.
// Guarantees: only speed depends on a choice, and it is this rank's own: peers need not know it.
// A copy past the caches ends with a fence, so that the step that publishes the data follows it.
// Cost: a comparison for small pieces; two reads of the tick counter from kTimedFrom bytes on.
//
//   rank.stores.copy(bytes, [&](bool past) { copy_bytes(to, from, bytes, past); });
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "base/ticks.h"

namespace rondo::host {

struct TickCounter {
  static std::uint64_t now() { return ticks(); }
  static TickReading reading() { return read_ticks(); }
};

template <class Clock = TickCounter>
class BasicStoreChoice {
 public:
  // Smaller pieces stay in the cache: 4 KiB take 1 us both ways, on far cores too.
  static constexpr std::size_t kPastFrom = 8 << 10;
  // Smaller copies fit into the store buffer and the core's outstanding misses: they tell nothing.
  static constexpr std::size_t kTimedFrom = 32 << 10;
  static constexpr double kFarNs = 100;  // exchange of a cache line, from which cores are far
  // Per byte of a copy through the cache by one thread. Near: 0.05 to 0.11; 240 ns apart: 0.19 to
  // 0.42.
  static constexpr double kSlowNs = 0.12;
  // Per byte, by which past the caches must be faster: near readers lose 0.04 to 0.08.
  static constexpr double kGainNs = 0.08;
  static constexpr std::int64_t kTryAgainNs = 10'000'000;
  static constexpr std::int64_t kHoldNs = 1'000'000'000;  // after the other way was no better

  // When the communicator is made. exchange_ns: with the farthest reader; 0: unknown.
  void start(double exchange_ns) {
    started_ = Clock::reading();
    exchange_ns_ = exchange_ns;
    past_ = exchange_ns >= kFarNs;
  }
  // From now on always one way.
  void fix(bool past) {
    past_ = past;
    fixed_ = true;
  }
  double exchange_ns() const { return exchange_ns_; }

  // For sums into such memory, which are not timed: their sources decide how long they take.
  bool past(std::size_t bytes) const { return past_ && bytes >= kPastFrom; }

  // Runs move(past) once, which copies `bytes` into memory that peers read next.
  template <class Move>
  void copy(std::size_t bytes, const Move& move) {
    if (bytes < kTimedFrom) return move(past(bytes));
    copy_shared(bytes, [&](bool past, OwnParts& parts) {
      move(past);
      parts.add(bytes);
    });
  }

  // The parts of a copy that the thread that began it has copied itself.
  class OwnParts {
   public:
    // Called after a part, on the thread that has copied it.
    void add(std::size_t bytes) {
      if (!pthread_equal(thread_, pthread_self())) return;
      bytes_ += bytes;
      until_ = Clock::now();
    }

   private:
    friend class BasicStoreChoice;
    const pthread_t thread_ = pthread_self();
    std::size_t bytes_ = 0;
    std::uint64_t until_ = 0;
  };

  // The same with move(past, parts), which several threads share and add their parts.
  template <class Move>
  void copy_shared(std::size_t bytes, const Move& move) {
    OwnParts own;
    if (bytes < kTimedFrom || fixed_ || (ticks_per_ns_ == 0 && !calibrate()))
      return move(past(bytes), own);
    const std::uint64_t before = Clock::now();
    const bool tries = past_ && !compares_ && before - tried_ >= try_again_;
    const bool past = past_ && !tries;
    move(past, own);
    if (own.bytes_ == 0 || (past && !compares_)) return;
    note(past, own.bytes_, before, own.until_);
  }

 private:
  static constexpr int kInARow = 3;

  // Of each way in turn while past_: first one through the cache, then one past it.
  void note(bool past, std::size_t bytes, std::uint64_t before, std::uint64_t now) {
    const double ns =
        static_cast<double>(now - before) / ticks_per_ns_ / static_cast<double>(bytes);
    if (!past_) {
      if (ns < kSlowNs) {
        in_a_row_ = 0;
      } else if (++in_a_row_ >= kInARow && now - changed_ >= hold_) {
        change(true, now, 0);
        through_ns_ = ns;
        compares_ = true;
      }
    } else if (!past) {
      through_ns_ = ns;
      compares_ = true;
    } else {
      compares_ = false;
      tried_ = now;
      if (ns + kGainNs <= through_ns_) {
        in_a_row_ = 0;
      } else if (++in_a_row_ < kInARow) {
        tried_ = now - try_again_;  // asks again at once
      } else {
        const bool asks_again = through_ns_ >= kSlowNs;  // soon, unless it is held back
        change(false, now, asks_again ? static_cast<std::uint64_t>(kHoldNs * ticks_per_ns_) : 0);
      }
    }
  }

  void change(bool past, std::uint64_t now, std::uint64_t hold) {
    past_ = past;
    in_a_row_ = 0;
    changed_ = tried_ = now;
    hold_ = hold;
  }

  // The rate of the counter, once there is enough time to take it from. False until then.
  bool calibrate() {
    constexpr std::int64_t kEnough = 1'000'000;  // ns
    const TickReading now = Clock::reading();
    const std::int64_t ns = now.monotonic_ns - started_.monotonic_ns;
    if (ns < kEnough || now.ticks <= started_.ticks) return false;
    ticks_per_ns_ = static_cast<double>(now.ticks - started_.ticks) / static_cast<double>(ns);
    try_again_ = static_cast<std::uint64_t>(kTryAgainNs * ticks_per_ns_);
    return true;
  }

  bool past_ = false, fixed_ = false;
  bool compares_ = false;    // the next timed copy past the caches is compared with through_ns_
  int in_a_row_ = 0;         // copies that speak for the other way
  double through_ns_ = 0;    // per byte, of the newest try
  double ticks_per_ns_ = 0;  // 0: not known yet
  std::uint64_t tried_ = 0, try_again_ = 0;
  std::uint64_t changed_ = 0, hold_ = 0;
  double exchange_ns_ = 0;
  TickReading started_;
};

using StoreChoice = BasicStoreChoice<>;

}  // namespace rondo::host
