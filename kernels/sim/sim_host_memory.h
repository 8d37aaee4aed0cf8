// SPDX-License-Identifier: Apache-2.0
// SimHostMemory: a PeerMemory executor that moves no bytes but adds up their cost in virtual time,
// as ranks in host memory would pay it (kernels/host/staged_memory.h, line_memory.h).
//
// It simulates one rank of consecutive calls: begin() must precede each call's algorithm, leave()
// must follow the last. A rank keeps its core until it has waited for a peer for a while, as
// base/wait.h does. Cost: about 100 ns per verb and peer; 8 bytes per step and rank.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/primitives.h"
#include "kernels/sim/sim_host_call.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

// SimCores: cores that simulated ranks share. A rank holds its core while it works and yields it
// when it must wait. The next rank in the queue gets the core after `yield_ns`.
//
// Rank r always runs on core r modulo cores. Only tasks of one VirtualTime may use it. Cost: one
// queue per core.
class SimCores {
 public:
  SimCores(VirtualTime& time, int cores, double yield_ns)
      : time_(time), yield_ns_(yield_ns), cores_(static_cast<std::size_t>(cores)) {}

  bool share(int a, int b) const { return place(a) == place(b); }

  // To be called by this rank's task: waits until the core is free, then takes it. The rank that
  // had it last pays nothing.
  void take(int rank) {
    time_.settle();
    Core& core = cores_[place(rank)];
    if (core.held) {
      core.waiting.push_back({rank, time_.self()});
      return time_.park();
    }
    core.held = true;
    if (core.last >= 0 && core.last != rank) time_.advance_to(time_.now_ns() + yield_ns_);
    core.last = rank;
  }

  // Must be called at the global time: after a settle(), or in an event.
  void give(int rank, double now_ns) {
    Core& core = cores_[place(rank)];
    core.held = !core.waiting.empty();
    if (!core.held) return;
    const Waiting next = core.waiting.front();
    core.waiting.pop_front();
    core.last = next.rank;
    time_.wake(next.task, now_ns + yield_ns_);
  }

 private:
  struct Waiting {
    int rank;
    VirtualTime::Task task;
  };
  struct Core {
    bool held = false;
    int last = -1;
    std::deque<Waiting> waiting;
  };
  std::size_t place(int rank) const { return static_cast<std::size_t>(rank) % cores_.size(); }

  VirtualTime& time_;
  const double yield_ns_;
  std::vector<Core> cores_;
};

// State that the ranks of a call share.
struct HostSteps {
  struct Rank {
    struct Waiting {
      VirtualTime::Task task;
      std::uint64_t step;  // the step that it waits for
    };
    std::vector<double> published_ns;  // by step
    std::vector<Waiting> waiting;
  };
  const SimHostCall& call;
  const AlgorithmRow& row;
  VirtualTime& time;
  SimCores& cores;
  std::vector<Rank> ranks;
};

class SimHostMemory {
 public:
  SimHostMemory(HostSteps& shared, int rank)
      : shared_(shared),
        rank_(rank),
        known_(shared.ranks.size()),
        seen_call_(shared.ranks.size()) {}

  void begin(int root);
  void leave();  // frees the core

  int rank() const { return rank_; }
  int size() const { return shared_.call.ranks; }

  void open(int slot);
  void expose(int slot, const Piece& piece);
  void publish();
  void wait(int r);
  void reduce(int, const Piece& piece, const Delivery& to);
  void copy(int, int, const Piece& piece, std::uint64_t);
  void copy_result(int, int, const Piece& piece);
  void copy_own(std::uint64_t, std::uint64_t, std::uint64_t count) {
    if (!shared_.call.in_place) work(count, cost().copy);
  }
  void release();

 private:
  HostSteps::Rank& mine() { return shared_.ranks[static_cast<std::size_t>(rank_)]; }
  const HostVerbCost& cost() const { return shared_.call.cost; }
  std::uint64_t step() { return mine().published_ns.size(); }
  bool lies(HostPath place) const { return shared_.call.place == place; }
  bool exposes_input() const;
  bool exposes_output(int rank) const;
  // Slots rotate from call to call, so that small calls do not wait for each other's readers, and
  // so do the parts of a slot.
  std::uint64_t& slot_step(int slot) {
    const std::size_t calls = begun_.size();
    const auto parts = static_cast<std::size_t>(shared_.call.slot_parts);
    return slot_steps_[(static_cast<std::size_t>(slot) + calls) % kStagingSlots]
                      [calls / kStagingSlots % parts];
  }
  void spend(double ns) { shared_.time.advance_to(shared_.time.now_ns() + ns); }
  void work(std::uint64_t elements, double each) {
    spend(static_cast<double>(elements * shared_.call.element_bytes) * each);
  }
  // Announcements are read in each call; steps that are already known are not.
  void see_announced(int r);
  void see_step(int r, std::uint64_t step);
  void read_step(int r, std::uint64_t step);
  void park_for(int r, std::uint64_t step);
  static void end_spin(void* self, std::uint64_t wait);

  HostSteps& shared_;
  const int rank_;
  int root_ = 0;
  std::uint64_t last_look_ = 0;  // the step after the last access to peers' buffers
  std::uint64_t slot_steps_[kStagingSlots][kSlotParts] = {};  // by slot and part: its last step
  std::vector<std::uint64_t> known_;                          // steps of each peer that were seen
  std::vector<std::size_t> seen_call_;  // newest call seen of each peer, from 1
  std::uint64_t waits_ = 0;             // odd: now waiting, on its core
  std::vector<std::uint64_t> begun_;    // by call: its first step
};

static_assert(PeerMemory<SimHostMemory>);

}  // namespace rondo::sim
