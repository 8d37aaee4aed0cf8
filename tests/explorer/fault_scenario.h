// SPDX-License-Identifier: Apache-2.0
// FaultScenario: a rank waits for a condition that stays false; a peer reports a fault and wakes
// it.
//
// The Waiter's supervisor checks for faults, not the condition. A fault must end a sleep that
// begins after it, whether or not the sleeper had set `parked` before the fault.
#pragma once

#include "base/wait.h"
#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {

class FaultScenario : public Scenario {
 public:
  int actors() const override { return 2; }
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&shared_, 1)); }

  void describe(Machine& machine) override {
    machine.word(shared_.bell, Role::kBell, 0, "bell");
    machine.word(shared_.parked, Role::kParked, 0, "parked");
    machine.word(shared_.data, Role::kTail, 1, "data");
    machine.word(shared_.fault, Role::kFault, 1, "fault");
    machine.plain(shared_.text, "fault text");
  }
  void reset() override {}

  void act(Machine& machine, int actor) override {
    if (actor == 1) {
      SimAtomics::store_plain(shared_.text, std::uint64_t{42});
      SimAtomics::store_release(shared_.fault, std::uint8_t{1});
      ring<SimAtomics>(shared_.bell);
      return;
    }
    BasicWaiter<SimAtomics> waiter(&shared_.parked, &shared_.bell);
    waiter.set_budget({0, 0});
    waiter.set_supervisor({this,
                           [](void* self, const WaitSite&, bool) {
                             auto& fault = static_cast<FaultScenario*>(self)->shared_.fault;
                             return SimAtomics::load_acquire(fault) == 0;
                           },
                           nullptr});
    const bool came =
        waiter.until([&] { return SimAtomics::load_acquire(shared_.data) > 0; }, {1, 0});
    machine.require(!came, "received what nobody sent");
    machine.require(SimAtomics::load_plain(shared_.text) == 42, "read another fault");
  }

 private:
  struct Shared {
    std::uint32_t bell;
    alignas(8) std::uint8_t parked;
    alignas(8) std::uint64_t data;
    std::uint8_t fault;
    alignas(8) std::uint64_t text;
  };
  Shared shared_{};
};

}  // namespace rondo::explorer
