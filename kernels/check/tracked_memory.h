// TrackedMemory: a buffer of expressions that records which thread accessed each element and when.
//
// Guarantees: read() and write() report every access that no signal orders after an earlier
// conflicting one (a read of data that is not published, a write over data that others may still
// read), every read of unwritten memory, and every access out of bounds. The report names both
// ranks, the buffer and the element. Cost: a few comparisons per access.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/check/clocks.h"
#include "kernels/check/expressions.h"

namespace rondo::check {

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
