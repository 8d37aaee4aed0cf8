// SPDX-License-Identifier: Apache-2.0
// One call at a time: a contestant's ranks meet before each call, and share when they entered and
// left it. All contestants use this one definition.
//
// The time of a call is what the last rank to come waits: from the latest entry to the latest
// return. So neither the skew of the barrier nor a rank that came early counts.
//
// Guarantees: the barrier and the times use shared memory of their own (a file in the group's
// folder), never the library under test. Between the barrier and the call a rank writes nothing
// that others read. Cost: two reads of the clock in each call.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/atomics.h"

namespace compare {

inline constexpr int kMaxCalls = 2000;  // of one line; groups.py knows it as MAX_CALLS

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Writes a word of each line: what a program does to its own data between calls.
inline void touch(void* memory, std::size_t bytes) {
  auto* words = static_cast<volatile std::uint32_t*>(memory);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint32_t); i += 64 / sizeof(std::uint32_t))
    words[i] = words[i];
}

// Which rank comes late to a call, and by how much of `typical` seconds: 0 to 2. The same for every
// contestant that is asked with the same seed.
struct Lateness {
  double typical = 0;  // seconds; 0: nobody is late
  std::uint64_t seed = 0;

  double of(int rank, int ranks, int call) const {
    if (typical <= 0) return 0;
    std::uint64_t bits = seed * 1000003 + static_cast<std::uint64_t>(call);
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;  // splitmix64's mixer
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    if (static_cast<int>(bits % static_cast<std::uint64_t>(ranks)) != rank) return 0;
    return 2 * typical * static_cast<double>(bits >> 11) * 0x1p-53;
  }
};

class Meeting {
 public:
  // The file is the driver's: its first word is the number of cores that the group may use.
  Meeting(const std::string& folder, int rank, int ranks) : rank_(rank), ranks_(ranks) {
    const int file = open((folder + "/meeting").c_str(), O_RDWR | O_CLOEXEC);
    void* memory = file < 0
                       ? MAP_FAILED
                       : mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) std::exit(6);
    close(file);
    shared_ = static_cast<Shared*>(memory);
    step_ = shared_->ranks[rank_].step.load(std::memory_order_relaxed);
  }
  ~Meeting() { munmap(shared_, sizeof(Shared)); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Returns when all ranks have come. Ranks that share cores yield early, others after about 1 ms.
  void meet() {
    const std::uint64_t mine = ++step_;
    const bool crowded = static_cast<std::uint64_t>(ranks_) > shared_->cores;
    shared_->ranks[rank_].step.store(mine, std::memory_order_release);
    for (int r = 0; r < ranks_; ++r) {
      const std::atomic<std::uint64_t>& step = shared_->ranks[r].step;
      for (int turn = 0; step.load(std::memory_order_acquire) < mine; ++turn) {
        if (turn > (crowded ? 50 : 20000)) {
          sched_yield();
        } else {
          rondo::cpu_relax();
        }
      }
    }
  }

  // Stores when this rank entered and left call `call`.
  void note(int call, double entered, double left) {
    shared_->ranks[rank_].times[call] = {entered, left};
  }

  // Median over `calls` calls, all ranks' times of which are noted, in seconds.
  double median(int calls) {
    meet();
    std::vector<double> seconds(static_cast<std::size_t>(calls));
    for (int call = 0; call < calls; ++call) {
      double entered = 0, left = 0;
      for (int r = 0; r < ranks_; ++r) {
        entered = std::max(entered, shared_->ranks[r].times[call].entered);
        left = std::max(left, shared_->ranks[r].times[call].left);
      }
      seconds[static_cast<std::size_t>(call)] = left - entered;
    }
    meet();  // before anybody notes the next ones
    const auto middle = seconds.begin() + calls / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

 private:
  static constexpr int kMaxRanks = 64;
  struct Times {
    double entered, left;  // seconds
  };
  struct alignas(4096) Rank {
    std::atomic<std::uint64_t> step;
    alignas(64) Times times[kMaxCalls];
  };
  struct Shared {
    alignas(4096) std::uint64_t cores;
    Rank ranks[kMaxRanks];
  };
  static_assert(sizeof(Shared) <= 4 << 20);  // the file's size: MEETING_BYTES of groups.py

  Shared* shared_;
  const int rank_, ranks_;
  std::uint64_t step_;
};

}  // namespace compare
