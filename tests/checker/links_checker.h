// SPDX-License-Identifier: Apache-2.0
// LinksChecker: runs algorithms over connections on expressions.
//
// Proves for the added calls, run one after another: every output element is the expression that
// its CallSpec requires, nothing else is changed, every message is received whole by the verb that
// it was sent for, no slot overflows, algorithms that a rank runs at once make no unordered
// accesses to the same memory, and there is no deadlock. A connection is a FIFO with `slots` slots.
// A verb that receives and sends needs the data and the free slot at once, as executors do that
// move from slot to slot.
//
//   LinksChecker checker(pool, {.ranks = n, .slots = 2, .slot_elements = 8});
//   checker.call(spec, [&](auto& c) { tree_all_reduce(c, rounds); });
//   EXPECT_EQ(checker.run().finding, "");
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/checker/call_spec.h"
#include "tests/checker/channels.h"
#include "tests/checker/schedule.h"

namespace rondo::check {

struct LinksOptions {
  int ranks = 1;
  int slots = 1;  // per connection
  std::uint64_t slot_elements = 0;
  std::optional<std::uint64_t> seed{};  // seed of the schedule
};

class LinksChecker {
 public:
  LinksChecker(Expressions& pool, const LinksOptions& options);
  LinksChecker(const LinksChecker&) = delete;
  LinksChecker& operator=(const LinksChecker&) = delete;

  // One call of all ranks.
  template <class Algorithm>
  void call(const CallSpec& spec, Algorithm&& text) {
    const int number = static_cast<int>(specs_.size());
    specs_.push_back(spec);
    for (LinksProgram& program : programs_) {
      program.add({LinksOp::Kind::kEnter, nullptr, {}, {}, 0, {}, number});
      text(program);
      program.add({LinksOp::Kind::kReturn, nullptr, {}, {}, 0, {}, number});
    }
  }

  Verdict run();

 private:
  struct Thread {
    int rank;
    int list;
    std::size_t at = 0;
    int call = -1;
    bool started = true;
    bool ended = false;
    bool forked = false;          // waits until the two lists of its current op have ended
    int first = -1, second = -1;  // the threads that run these lists
    Clocks::Snapshot signal;
  };

  void start();
  Turn step(int t);
  Turn fork_or_join(int t, const LinksOp& op);
  std::string why_blocked(int t);
  void perform(int t, const LinksOp& op);
  void leave_call(int t, int number);

  Expressions& pool_;
  LinksOptions options_;
  Witness witness_;
  std::vector<LinksProgram> programs_;
  std::vector<CallSpec> specs_;
  std::vector<std::vector<UserBuffers>> users_;  // by call and rank
  std::vector<Expectation> expected_;
  std::vector<Thread> threads_;
  std::vector<std::vector<int>> thread_of_;  // by rank and list
  Channels channels_;
};

}  // namespace rondo::check
