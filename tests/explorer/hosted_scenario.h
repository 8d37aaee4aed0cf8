// SPDX-License-Identifier: Apache-2.0
// HostedScenario: staged calls that a stream enqueues and a host thread executes (HostProxy).
//
// It uses the real memory orders of both sides (hosted_words.h), with calls of several steps and
// more calls than halves of staging. A stream's memory operations are releases and acquires; its
// copies are plain accesses.
#pragma once

#include <string>

#include "collectives/gpu/staging/hosted_words.h"
#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {

class HostedScenario : public Scenario {
 public:
  // Calls have `steps` and `steps` + 1 steps, alternating.
  HostedScenario(int calls, std::uint32_t steps) : calls_(calls), steps_(steps) {}

  int actors() const override { return 2; }
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&shared_, 1)); }

  void describe(Machine& machine) override {
    machine.word(shared_.words.call_slot, Role::kSequence, Machine::kAnyone, "CALL_SLOT");
    machine.word(shared_.words.ready, Role::kTail, Machine::kAnyone, "READY");
    machine.word(shared_.words.done, Role::kHead, Machine::kAnyone, "DONE");
    for (int half = 0; half < 2; ++half) {
      machine.plain(shared_.input[half], "input " + std::to_string(half));
      machine.plain(shared_.output[half], "output " + std::to_string(half));
    }
  }
  void reset() override {}

  void act(Machine& machine, int actor) override {
    for (int call = 0; call < calls_; ++call)
      if (actor == 0) {
        Stream on{machine, shared_, call};
        machine.require(gpu::enqueue_steps(shared_.words, slot_of(call), steps_of(call), on).ok(),
                        "cannot enqueue");
      } else {
        serve(machine, call);
      }
  }
  std::string check() override {
    const gpu::HostedWords& words = shared_.words;
    return words.call_slot + words.ready + words.done == 0 ? "" : "a word is not 0 between calls";
  }

 private:
  struct Shared {
    gpu::HostedWords words;
    std::uint64_t input[2], output[2];
  };
  static std::uint64_t input_of(int call, std::uint64_t step) {
    return 100 * static_cast<std::uint64_t>(call + 1) + step;
  }
  static std::uint64_t output_of(int call, std::uint64_t step) {
    return 10'000 + input_of(call, step);
  }
  std::uint32_t slot_of(int call) const { return static_cast<std::uint32_t>(call % 2 + 1); }
  std::uint32_t steps_of(int call) const { return steps_ + slot_of(call) - 1; }

  struct Stream {
    Machine& machine;
    Shared& shared;
    int call;

    Status write(std::uint32_t& word, std::uint32_t value) {
      SimAtomics::store_release(word, value);
      return ok_status();
    }
    Status wait(std::uint32_t& word, std::uint32_t at_least) {
      machine.at(static_cast<std::uint64_t>(call) * 100 + at_least);
      while (SimAtomics::load_acquire(word) < at_least) machine.await_change(&word);
      return ok_status();
    }
    Status copy(std::uint64_t step, bool in) {
      if (in) {
        SimAtomics::store_plain(shared.input[step % 2], input_of(call, step));
      } else {
        machine.require(SimAtomics::load_plain(shared.output[step % 2]) == output_of(call, step),
                        "copied out another step's output");
      }
      return ok_status();
    }
  };

  void serve(Machine& machine, int call) {
    machine.at(static_cast<std::uint64_t>(call) * 100);
    std::uint32_t slot = 0;
    while ((slot = SimAtomics::load_acquire(shared_.words.call_slot)) == 0)
      machine.await_change(&shared_.words.call_slot);
    machine.require(slot == slot_of(call), "serves another call");
    std::uint32_t step = 0;
    const auto idle = [&](int) {
      machine.await_change(&shared_.words.ready);
      return true;
    };
    const auto do_step = [&](std::uint32_t j) {
      machine.require(SimAtomics::load_plain(shared_.input[j % 2]) == input_of(call, j),
                      "read another step's input");
      SimAtomics::store_plain(shared_.output[j % 2], output_of(call, j));
      machine.at(static_cast<std::uint64_t>(call) * 100 + 1 + ++step);
      return true;
    };
    gpu::serve_steps<SimAtomics>(shared_.words, steps_of(call), idle, do_step, [] {});
  }

  const int calls_;
  const std::uint32_t steps_;
  Shared shared_{};
};

}  // namespace rondo::explorer
