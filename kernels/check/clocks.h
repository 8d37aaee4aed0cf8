// Clocks: vector clocks, which determine the actions that signals order.
//
// A thread is one rank, or one of several algorithms that a rank runs at once. A signal carries a
// snapshot of its sender's clock. A thread that waits for a signal joins exactly that snapshot,
// even if later signals have already arrived. So an order that exists only in this schedule does
// not count, and one schedule finds every pair of unordered accesses of its algorithm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rondo::check {

// When a thread did something.
struct Stamp {
  std::uint32_t thread = 0;
  std::uint32_t time = 0;  // 0: before everything
};

class Clocks {
 public:
  using Snapshot = std::vector<std::uint32_t>;

  explicit Clocks(int threads) : clocks_(threads, Snapshot(threads, 0)) {
    for (int t = 0; t < threads; ++t) clocks_[t][t] = 1;
  }

  int threads() const { return static_cast<int>(clocks_.size()); }
  Stamp now(int thread) const {
    return {static_cast<std::uint32_t>(thread), clocks_[thread][thread]};
  }
  // True if the action at `stamp` is ordered before what `thread` does now.
  bool before(Stamp stamp, int thread) const { return stamp.time <= clocks_[thread][stamp.thread]; }

  // Copies the clock of `thread` into `signal`; later actions of `thread` are not part of it.
  void publish(int thread, Snapshot& signal) {
    signal = clocks_[thread];
    ++clocks_[thread][thread];
  }
  // `thread` has received the signal that `from` sent.
  void join(int thread, int from, const Snapshot& signal) {
    Snapshot& mine = clocks_[thread];
    if (mine[from] >= signal[from]) return;  // nothing in it is new
    for (std::size_t t = 0; t < mine.size(); ++t) mine[t] = std::max(mine[t], signal[t]);
  }

 private:
  std::vector<Snapshot> clocks_;
};

}  // namespace rondo::check
