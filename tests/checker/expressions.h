// SPDX-License-Identifier: Apache-2.0
// Expressions: the values of buffer elements while the checker runs an algorithm. A value is not a
// number but the expression over (rank, element) that computes it.
//
// Equal expressions are one node (hash-consing), so comparing two is comparing two integers, and a
// sum over 64 ranks that every rank computes takes 63 nodes. No operation is assumed to be
// commutative or associative: the order is part of the result. Cost: one hash lookup per operation.
//
//   Expr sum = pool.combine(pool.input(0, /*rank=*/0, 7), pool.input(0, /*rank=*/1, 7));
//   pool.text(sum)  ->  "(r0[7] + r1[7])"
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo::check {

// When a thread did something.
struct Stamp {
  std::uint32_t thread = 0;
  std::uint32_t time = 0;  // 0: before everything
};

// Clocks: vector clocks, which determine the actions that signals order.
//
// A thread is one rank, or one of several algorithms that a rank runs at once. A signal carries a
// snapshot of its sender's clock. A thread that waits for a signal joins exactly that snapshot,
// even if later signals have already arrived. So an order that exists only in this schedule does
// not count, and one schedule finds every pair of unordered accesses of its algorithm.
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

using Expr = std::uint32_t;
inline constexpr Expr kNothing = 0;  // the value of unwritten memory

class Expressions {
 public:
  Expressions();

  // Element `element` of the input of `rank` in call number `call`.
  Expr input(int call, int rank, std::uint64_t element);
  Expr combine(Expr left, Expr right);
  // The reduction's last step, after all ranks are combined (avg divides).
  Expr finish(Expr whole);

  std::string text(Expr expr) const;
  std::size_t size() const { return nodes_.size(); }

 private:
  enum class Kind : std::uint32_t { kNone, kInput, kCombine, kFinish };
  struct Node {
    Kind kind;
    std::uint32_t a;
    std::uint32_t b;
    friend bool operator==(const Node&, const Node&) = default;
  };
  Expr intern(const Node& node);
  void grow();

  std::vector<Node> nodes_;
  std::vector<Expr> table_;  // open addressing; kNothing: empty
};

// The balanced binary tree over `values`: split at the largest power of two below their number.
Expr balanced_tree(Expressions& pool, const std::vector<Expr>& values);

// The first error found; empty if there is none.
struct Verdict {
  std::string finding;
  bool ok() const { return finding.empty(); }
  void report(std::string text) {
    if (finding.empty()) finding = std::move(text);
  }
};

// State that all accesses of one run share.
struct Witness {
  Clocks clocks;
  std::vector<std::string> names;  // by thread: "rank 3"
  Verdict verdict;
};

// TrackedMemory: a buffer of expressions that records which thread accessed each element and when.
//
// Guarantees: read() and write() report every access that no signal orders after an earlier
// conflicting one (a read of data that is not published, a write over data that others may still
// read), every read of unwritten memory, and every access out of bounds. The report names both
// ranks, the buffer and the element. Cost: a few comparisons per access.
class TrackedMemory {
 public:
  TrackedMemory() = default;
  // Initially all elements hold kNothing, or the value that set() writes, ordered before
  // everything.
  TrackedMemory(Witness& witness, std::string name, std::uint64_t size)
      : witness_(&witness), name_(std::move(name)), cells_(size) {}

  std::uint64_t size() const { return cells_.size(); }
  void set(std::uint64_t at, Expr value) { cells_[at].value = value; }
  Expr peek(std::uint64_t at) const { return cells_[at].value; }

  Expr read(std::uint64_t at, int thread);
  void write(std::uint64_t at, int thread, Expr value);

 private:
  struct Cell {
    Expr value = kNothing;
    Stamp writer;
    Stamp reader;            // the only reader, or the first of several
    std::uint32_t more = 0;  // index + 1 in readers_ of further readers; 0: none
  };
  bool inside(std::uint64_t at, int thread);
  void report(const char* verb, std::uint64_t at, int thread, const char* earlier, Stamp by);
  void add_reader(Cell& cell, Stamp reader);

  Witness* witness_ = nullptr;
  std::string name_;
  std::vector<Cell> cells_;
  std::vector<std::vector<Stamp>> readers_;
  std::vector<std::uint32_t> free_readers_;
};

}  // namespace rondo::check
