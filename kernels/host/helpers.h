// SPDX-License-Identifier: Apache-2.0
// Helpers: threads of this process that share the copies and sums of one of its ranks.
//
// All communicators of a rank use the same helpers, one at a time: run() of a second thread runs
// alone. Work is cut into contiguous slices. The caller runs slice 0, helper i runs slice i. When
// the caller has finished its own slice it takes over each slice that no helper has begun, so it
// never waits for a helper that sleeps. If no helper comes in time, the next calls of run() leave
// them out, twice as many after each failure: programs may use the cores themselves.
// Helpers start at the first run() that may wake them. They spin for 100 us after their last slice,
// the later part of it yielding, then sleep.
// Guarantees: run() returns when every slice has run once, so no helper uses a buffer after it. The
// caller then sees all that the slices wrote. A forked child has no helpers and runs alone, as does
// a process that may not start threads (one WARN). No allocation and no lock after the threads have
// started; a system call only if `wake` is true and a helper sleeps.
// Cost: one cache line each way per helper that spins (its time is unmeasured). Waking sleepers
// takes the caller 7 to 14 us; they come after 30 to 60 us.
//
//   const auto helpers = Helpers::of_rank(0);
//   helpers->run(bytes, {4, true}, body);   // body(begin, end), in bytes
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread.h"
#include "transport/connection.h"

namespace rondo::host {

// Runs bytes [begin, end) of a piece of work. Never throws.
struct SliceBody {
  void (*run)(const void* self, std::size_t begin, std::size_t end) = nullptr;
  const void* self = nullptr;
  void operator()(std::size_t begin, std::size_t end) const { run(self, begin, end); }
};

// Slice i of `count`: boundaries are multiples of 4 KiB.
struct ByteRange {
  std::size_t begin, end;
};
ByteRange slice_of(std::size_t bytes, std::size_t count, std::size_t i);

class Helpers {
 public:
  static constexpr int kMaxThreads = 256;
  static constexpr std::size_t kMinSlice = 16 << 10;  // bytes: smaller slices do not pay

  struct Use {
    int threads = 1;    // maximum, the caller included
    bool wake = false;  // helpers that sleep are woken, or started
  };

  // The helpers of the rank with this number among the ranks of this process.
  static std::shared_ptr<Helpers> of_rank(int number);
  Helpers();
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  // The smallest limit of all communicators applies: they may use the same cores.
  void limit(int threads);
  void run(std::size_t bytes, const Use& use, const SliceBody& body);
  int started() const { return started_.load(std::memory_order_relaxed); }

 private:
  enum State : std::uint32_t { kIdle, kOpen, kTaken };
  struct Helper;

  void start(int wanted);
  void serve(Helper& helper);
  void run_slices(std::size_t bytes, const Use& use, const SliceBody& body);
  int open(std::size_t bytes, const Use& use, const SliceBody& body, int threads);
  void learn(bool helped);

  const std::uint32_t made_in_;
  cpu_set_t cores_;  // of the thread that made the communicator
  std::atomic<int> limit_{kMaxThreads};
  std::atomic<int> started_{0};
  // The members below belong to the caller that has set busy_.
  std::atomic<bool> busy_{false};
  bool refused_ = false;  // the system has refused a thread
  int left_out_ = 0, leave_out_ = 0;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::vector<Helper*> opened_;
  alignas(kLineBytes) std::uint32_t bell_ = 0;
  std::atomic<bool> ending_{false};
};

}  // namespace rondo::host
