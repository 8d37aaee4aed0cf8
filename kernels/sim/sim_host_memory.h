// SimHostMemory: the executor of texts over peers' memory (PeerMemory) that moves no bytes, only
// their number, in virtual time, as ranks in host memory do it (kernels/host/staged_memory.h,
// line_memory.h).
//
// One rank of calls that follow each other: begin() comes before the text of each, leave() behind
// that of the last. A rank keeps its core until it has waited for a peer for a while, as
// base/wait.h does. Cost: some 100 ns a verb and peer; 8 bytes a step and rank.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/primitives.h"
#include "kernels/sim/sim_cores.h"
#include "kernels/sim/simulate_host.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

// What the ranks of a call have in common.
struct HostSteps {
  struct Rank {
    struct Waiting {
      VirtualTime::Task task;
      std::uint64_t step;  // that it needs
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
  void leave();  // the core is free then

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
  // Slots turn from call to call, so that small calls do not wait for each other's readers.
  std::uint64_t& slot_step(int slot) {
    return slot_steps_[(static_cast<std::size_t>(slot) + begun_.size()) % kStagingSlots];
  }
  void spend(double ns) { shared_.time.advance_to(shared_.time.now_ns() + ns); }
  void work(std::uint64_t elements, double each) {
    spend(static_cast<double>(elements * shared_.call.element_bytes) * each);
  }
  // Announcements are looked at in each call, steps that are known are not.
  void see_announced(int r);
  void see_step(int r, std::uint64_t step);
  void read_step(int r, std::uint64_t step);
  void park_for(int r, std::uint64_t step);
  static void end_spin(void* self, std::uint64_t wait);

  HostSteps& shared_;
  const int rank_;
  int root_ = 0;
  std::uint64_t last_look_ = 0;  // the step that follows what was last done in peers' buffers
  std::uint64_t slot_steps_[kStagingSlots] = {};  // the step that published each one last
  std::vector<std::uint64_t> known_;              // steps of each peer that were seen
  std::vector<std::size_t> seen_call_;            // of each peer, counted from 1
  std::uint64_t waits_ = 0;                       // odd: in one, on its core
  std::vector<std::uint64_t> begun_;              // by call: its first step
};

static_assert(PeerMemory<SimHostMemory>);

}  // namespace rondo::sim
