// SPDX-License-Identifier: Apache-2.0
// CallOrderScenario: one thread takes its turns; another sleeps until the turn after them.
//
// It runs the real CallOrder. The wakeup after the first turn is spurious; the one after the last
// turn must not be lost. The turns guard a plain word.
#pragma once

#include "collectives/communicator/call_order.h"
#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {

// light: a fence of all threads is available (membarrier). Otherwise the frequent side has its own
// barrier.
template <bool light>
struct SimTurnAtomics : SimAtomics {
  template <class T>
  static void store_before_loads(T& word, T value) {
    if (light) {
      store_release(word, value);
    } else {
      store_seq_cst(word, value);
    }
  }
  static void heavy_fence() {
    if (light) machine->heavy_fence();
  }
  // For a word that only one actor writes.
  static void add_seq_cst(std::uint32_t& word, std::uint32_t more) {
    store_seq_cst(word, load_relaxed(word) + more);
  }
};

template <bool light>
class CallOrderScenario : public Scenario {
 public:
  explicit CallOrderScenario(std::uint64_t turns) : turns_(turns) {}

  int actors() const override { return 2; }
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&shared_, 1)); }

  void describe(Machine& machine) override {
    const auto& words = shared_.order.words();
    machine.word(words.turn, Role::kTail, Machine::kAnyone, "turn");
    machine.word(words.sleepers, Role::kParked, 1, "sleepers");
    machine.word(words.bell, Role::kBell, 1, "bell");
    machine.plain(shared_.guarded, "what the turns guard");
  }
  void reset() override {}

  void act(Machine& machine, int actor) override {
    const std::uint64_t first = actor == 0 ? 0 : turns_;
    const std::uint64_t end = actor == 0 ? turns_ : turns_ + 1;
    for (std::uint64_t ticket = first; ticket < end; ++ticket) {
      machine.at(ticket);
      shared_.order.wait_turn(ticket);
      machine.require(SimAtomics::load_plain(shared_.guarded) == ticket, "runs in another's turn");
      SimAtomics::store_plain(shared_.guarded, ticket + 1);
      shared_.order.finish(ticket);
    }
  }

 private:
  struct {
    BasicCallOrder<SimTurnAtomics<light>> order;
    std::uint64_t guarded = 0;
  } shared_;
  const std::uint64_t turns_;
};

}  // namespace rondo::explorer
