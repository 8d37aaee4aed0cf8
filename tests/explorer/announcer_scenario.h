// SPDX-License-Identifier: Apache-2.0
// AnnouncerScenario: calls published in a ring of two lines per rank, in the modes of the
// executors.
//
// It runs the real Announcer and Waiter, with more calls than lines.
#pragma once

#include <string>

#include "kernels/host/announcer.h"
#include "tests/explorer/sim_atomics.h"

namespace rondo::explorer {

class AnnouncerScenario : public Scenario {
 public:
  enum class Calls {
    kLines,          // all read all ranks' payloads in the lines (LineMemory)
    kOneWay,         // all read rank 0's, which waits for no rank (a broadcast's root)
    kStaging,        // all read all ranks' staging, one slot each (StagedMemory)
    kPhases,         // the same, and all wait until all have read it
    kUnlike,         // kOneWay, with ranks whose calls differ from the first one on
    kForgottenStep,  // kStaging, and only the next line publishes a step that is due
  };
  AnnouncerScenario(Calls which, int ranks, int calls, Wakes wakes = Wakes::kWithBarrier)
      : which_(which), size_(ranks), calls_(calls), wakes_(wakes) {}

  int actors() const override { return size_; }
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&shared_, 1)); }

  void describe(Machine& machine) override {
    for (int r = 0; r < size_; ++r) {
      const std::string of = " of rank " + std::to_string(r);
      Port& port = shared_.ports[r];
      machine.word(port.bell, Role::kBell, r, "bell" + of);
      machine.word(port.parked, Role::kParked, r, "parked" + of);
      machine.word(port.steps.step, Role::kStep, r, "step" + of);
      machine.word(port.steps.sequence, Role::kSequence, r, "newest call" + of);
      machine.plain(port.staging, "staging" + of);
      for (int i = 0; i < kDepth; ++i) {
        const std::string at = " in line " + std::to_string(i) + of;
        machine.word(port.lines[i].sequence, Role::kLine, r, "call" + at);
        machine.plain(port.lines[i].record, "record" + at);
        machine.plain(port.lines[i].history, "history" + at);
        machine.plain(port.lines[i].flags, "flags" + at);
        machine.plain(payload(port.lines[i]), "payload" + at);
      }
    }
  }

  void reset() override {
    for (int r = 0; r < size_; ++r) {
      Local& local = locals_[r];
      local = {};
      Rank& rank = local.rank;
      rank.rank = r;
      rank.size = size_;
      rank.light = wakes_ != Wakes::kWithBarrier;
      for (int peer = 0; peer < size_; ++peer) {
        Port& port = shared_.ports[peer];
        PeerPort seen{};
        seen.announcements = port.lines;
        seen.steps = &port.steps;
        seen.bell = &port.bell;
        seen.parked = &port.parked;
        rank.peers.push_back(seen);
        rank.global.push_back(peer);
      }
      rank.known_step.resize(size_);
      rank.known_sequence.resize(size_);
      rank.entered.resize(size_);
      rank.exposure.resize(size_);
      rank.hooks.owner = this;
      rank.hooks.on_mismatch = [](void* self, int peer, const CallRecord&, const CallRecord&,
                                  std::uint64_t) {
        auto* const scenario = static_cast<AnnouncerScenario*>(self);
        if (scenario->which_ == Calls::kUnlike) return scenario->require_unlike_lines(peer);
        scenario->machine_->require(false, "read another call's record");
      };
      rank.waiter = {&shared_.ports[r].parked, &shared_.ports[r].bell, wakes_ == Wakes::kLight};
      rank.waiter.set_budget({0, 0});
      rank.waiter.set_supervisor({&local, &keep_waiting, nullptr});
    }
  }

  void act(Machine& machine, int actor) override {
    machine_ = &machine;
    Local& local = locals_[actor];
    local.machine = &machine;
    for (int c = 0; c < calls_; ++c) {
      CallRecord record;
      record.count = static_cast<std::uint64_t>(which_ == Calls::kUnlike ? c + 100 * actor : c);
      Announcer announcer(local.rank, record);
      local.remember(0);
      announcer.reserve_line();
      const std::uint64_t own = value(actor, c);
      if (which_ == Calls::kLines || which_ == Calls::kOneWay || which_ == Calls::kUnlike) {
        exchange_lines(local, announcer, own, c);
      } else {
        stage(local, announcer, own);
      }
      if (announcer.failed()) return;
    }
  }

 private:
  static constexpr int kDepth = 2;
  using Announcer = host::BasicAnnouncer<SimAtomics, kDepth>;
  using Rank = host::BasicHostRank<SimAtomics>;

  struct Port {
    AnnounceLine lines[kDepth];
    StepLine steps;
    std::uint64_t staging;
    std::uint32_t bell;
    alignas(8) std::uint8_t parked;
  };
  struct Shared {
    Port ports[3];
  };
  // What a rank keeps, and its position in its program.
  struct Local {
    Rank rank;
    Machine* machine = nullptr;
    std::uint64_t place = 0;

    void remember(std::uint64_t position) {
      place = position;
      const auto add = [&](std::uint64_t v) { place = place * 1'000'003 + v; };
      add(rank.sequence), add(rank.step), add(rank.slots[0].last[0]), add(rank.owes_step);
      for (const std::uint64_t step : rank.known_step) add(step);
      for (const std::uint64_t sequence : rank.known_sequence) add(sequence);
      for (const std::uint64_t sequence : rank.entered) add(sequence);
      add(rank.history), add(static_cast<std::uint64_t>(rank.next_compared));
      machine->at(place);
    }
  };

  static bool keep_waiting(void* self, const WaitSite& site, bool) {
    auto* local = static_cast<Local*>(self);
    local->machine->at(local->place * 31 + static_cast<std::uint64_t>(site.peer) + 1);
    return true;
  }

  static std::uint64_t& payload(AnnounceLine& line) {
    return *reinterpret_cast<std::uint64_t*>(line.payload);
  }
  static std::uint64_t value(int rank, int call) {
    return static_cast<std::uint64_t>(100 * call + rank + 1);
  }

  // A rank that finds that two ranks' calls differ can also read both calls in the lines.
  void require_unlike_lines(int peer) {
    bool found = false;
    for (int i = 0; i < kDepth; ++i) {
      const AnnounceLine& one = shared_.ports[peer].lines[i];
      const AnnounceLine& other = shared_.ports[1 - peer].lines[i];
      const std::uint64_t sequence = SimAtomics::load_acquire(one.sequence);
      found = found || (sequence != 0 && SimAtomics::load_acquire(other.sequence) == sequence);
    }
    machine_->require(found, "knows of a difference that no line tells");
  }

  void exchange_lines(Local& local, Announcer& announcer, std::uint64_t own, int call) {
    SimAtomics::store_plain(payload(announcer.own_line()), own);
    ++local.rank.step;
    announcer.publish_line(0);
    for (int k = 1; k < size_; ++k) {
      const int peer = (local.rank.rank + k) % size_;
      if (which_ != Calls::kLines && peer != 0) continue;
      local.remember(static_cast<std::uint64_t>(k));
      announcer.wait_line(peer);
      if (announcer.failed()) return;
      auto& line = const_cast<AnnounceLine&>(announcer.line_of_peer(peer));
      const std::uint64_t got = SimAtomics::load_plain(payload(line));
      local.machine->require(got == value(peer, call), "received another payload");
    }
  }

  void stage(Local& local, Announcer& announcer, std::uint64_t own) {
    Rank& rank = local.rank;
    for (int peer = 0; peer < size_ && rank.slots[0].last[0] > 0; ++peer) {
      if (peer == rank.rank) continue;
      local.remember(10 + static_cast<std::uint64_t>(peer));
      announcer.wait_step(peer, rank.slots[0].last[0] + 1);
    }
    SimAtomics::store_plain(shared_.ports[rank.rank].staging, own);
    rank.slots[0].last[0] = ++rank.step;
    announcer.publish_line(0);
    for (int k = 1; k < size_; ++k) {
      const int peer = (rank.rank + k) % size_;
      local.remember(20 + static_cast<std::uint64_t>(peer));
      announcer.wait_line(peer);
      local.remember(30 + static_cast<std::uint64_t>(peer));
      announcer.wait_step(peer, rank.step);
      const std::uint64_t got = SimAtomics::load_plain(shared_.ports[peer].staging);
      local.machine->require(got == own - rank.rank + peer, "received another part of staging");
    }
    ++rank.step;
    if (which_ == Calls::kPhases) {
      announcer.publish_step();
    } else {
      announcer.owe_step();
      if (which_ == Calls::kForgottenStep) rank.owes_step = false;
    }
    for (int k = 1; k < size_ && which_ == Calls::kPhases; ++k) {
      const int peer = (rank.rank + k) % size_;
      local.remember(40 + static_cast<std::uint64_t>(peer));
      announcer.wait_step(peer, rank.step);
    }
  }

  const Calls which_;
  const int size_;
  const int calls_;
  const Wakes wakes_;
  Machine* machine_ = nullptr;
  Shared shared_{};
  Local locals_[3];
};

}  // namespace rondo::explorer
