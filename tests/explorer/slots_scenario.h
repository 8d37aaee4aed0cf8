// SPDX-License-Identifier: Apache-2.0
// SlotsScenario: messages through the slots of one Connection, or of two through a relay.
//
// It runs the real SendEnd, ReceiveEnd and Waiter, with more messages than slots, so slots are
// reused. Their data are stored through the cache or past it (store_choice.h), or in turn.
#pragma once

#include <string>

#include "base/wait.h"
#include "kernels/host/slots.h"
#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {

class SlotsScenario : public Scenario {
 public:
  enum class Stores : std::uint8_t { kThrough, kPast, kInTurn };

  // Actor i sends to actor i + 1; actors in the middle forward.
  SlotsScenario(int actors, int slot_count, int messages, Stores stores = Stores::kThrough,
                Wakes wakes = Wakes::kWithBarrier)
      : actors_(actors), slots_(slot_count), messages_(messages), stores_(stores), wakes_(wakes) {}

  int actors() const override { return actors_; }
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&shared_, 1)); }

  void describe(Machine& machine) override {
    for (int a = 0; a < actors_; ++a) {
      machine.word(shared_.doors[a].bell, Role::kBell, a, "bell of actor " + std::to_string(a));
      machine.word(shared_.doors[a].parked, Role::kParked, a,
                   "parked of actor " + std::to_string(a));
    }
    for (int link = 0; link + 1 < actors_; ++link) {
      Link& words = shared_.links[link];
      const std::string of = " of link " + std::to_string(link);
      machine.word(words.tail, Role::kTail, link, "tail" + of);
      machine.word(words.head, Role::kHead, link + 1, "head" + of);
      for (int s = 0; s < slots_; ++s) {
        machine.plain(words.records[s], "record " + std::to_string(s) + of);
        machine.plain(words.used[s], "size " + std::to_string(s) + of);
        machine.plain(words.buffer[s], "slot " + std::to_string(s) + of);
      }
    }
  }

  void reset() override {}

  void act(Machine& machine, int actor) override {
    BasicWaiter<SimAtomics> waiter(&shared_.doors[actor].parked, &shared_.doors[actor].bell,
                                   wakes_ == Wakes::kLight);
    waiter.set_budget({0, 0});
    Connection previous = connection(actor - 1, actor - 1);
    Connection next = connection(actor, actor + 1);
    host::ReceiveEnd<SimAtomics> from(previous);
    host::SendEnd<SimAtomics> to(next);
    for (int m = 0; m < messages_; ++m) {
      machine.at(static_cast<std::uint64_t>(2 * m));
      std::uint64_t value = 1 + static_cast<std::uint64_t>(m);
      if (actor > 0) {
        waiter.until([&] { return from.ready(); }, {actor - 1, 0});
        machine.require(from.bytes() == value, "received another message's size");
        machine.require(from.record().count == value, "received another message's record");
        value = SimAtomics::load_plain(*reinterpret_cast<const std::uint64_t*>(from.slot()));
        machine.require(value == 1 + static_cast<std::uint64_t>(m), "received another message");
      }
      if (actor + 1 < actors_) {
        machine.at(static_cast<std::uint64_t>(2 * m + 1));
        waiter.until([&] { return to.ready(); }, {actor + 1, 0});
        const bool past = stores_ == Stores::kPast || (stores_ == Stores::kInTurn && m % 2 == 1);
        auto& slot = *reinterpret_cast<std::uint64_t*>(to.slot());
        past ? SimAtomics::store_past(slot, value) : SimAtomics::store_plain(slot, value);
        CallRecord record;
        record.count = value;
        to.push(value, record);
      }
      if (actor > 0) from.pop();
    }
  }

 private:
  struct Door {
    std::uint32_t bell;
    alignas(8) std::uint8_t parked;
  };
  struct Link {
    std::uint64_t tail;
    std::uint64_t head;
    CallRecord records[2];
    std::uint64_t used[2];
    std::uint64_t buffer[2];
  };
  struct Shared {
    Door doors[3];
    Link links[2];
  };

  Connection connection(int link, int peer) {
    if (link < 0 || link + 1 >= actors_) return {};
    Link& words = shared_.links[link];
    Door& door = shared_.doors[peer];
    return {reinterpret_cast<std::byte*>(words.buffer),
            sizeof(std::uint64_t),
            static_cast<std::uint64_t>(slots_),
            &words.tail,
            &words.head,
            words.records,
            words.used,
            &door.bell,
            &door.parked,
            peer,
            wakes_ != Wakes::kWithBarrier};
  }

  const int actors_;
  const int slots_;
  const int messages_;
  const Stores stores_;
  const Wakes wakes_;
  Shared shared_{};
};

}  // namespace rondo::explorer
