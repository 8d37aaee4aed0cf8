// SimMemory: the executor of texts over peers' memory (PeerMemory) that moves no bytes, only their
// number, in virtual time: ranks of one host whose kernels read each other's buffers in place.
//
// Copies and sums of a step run at once, as all CTAs work on all peers: the rank waits for them
// where it publishes, waits or returns. One per rank. Cost: some 100 ns a verb and peer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/primitives.h"
#include "kernels/sim/traffic.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

// What ranks of a call have in common.
class SharedSteps {
 public:
  SharedSteps(const Machine& machine, VirtualTime& time, Traffic& traffic, const VerbCost& cost,
              std::uint64_t element_bytes, int ctas, int ranks);

 private:
  friend class SimMemory;
  struct Rank {
    std::vector<double> published_ns;  // by step
    std::vector<VirtualTime::Task> waiting;
    std::vector<Route> from;                      // by peer
    std::uint64_t slot_step[kStagingSlots] = {};  // the step that published each slot last
  };
  const Machine& machine_;
  VirtualTime& time_;
  Traffic& traffic_;
  const VerbCost cost_;
  const double element_bytes_;
  const int ctas_;
  std::vector<Rank> ranks_;
};

class SimMemory {
 public:
  SimMemory(SharedSteps& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(shared_.ranks_.size()); }

  void open(int slot);
  void expose(int slot, const Piece&) { mine().slot_step[slot] = step() + 1; }
  void publish();
  void wait(int r) { wait_for(r, step()); }
  void reduce(int slot, const Piece& piece, const Delivery& to);
  void copy(int r, int, const Piece& piece, std::uint64_t) { copy_from(r, piece.count); }
  void copy_result(int r, int, const Piece& piece) { copy_from(r, piece.count); }
  void copy_own(std::uint64_t, std::uint64_t, std::uint64_t count) { work(count, false, 1); }
  void release() {
    publish();
    for (int r = 0; r < size(); ++r) wait_for(r, step());
  }

 private:
  SharedSteps::Rank& mine() { return shared_.ranks_[static_cast<std::size_t>(rank_)]; }
  std::uint64_t step() { return mine().published_ns.size(); }
  void wait_for(int r, std::uint64_t step);
  void fetch(int r, std::uint64_t count);
  void copy_from(int r, std::uint64_t count) {
    fetch(r, count);
    work(count, false, 1);
  }
  void work(std::uint64_t count, bool sums, int operands);
  void finish_fetches();

  SharedSteps& shared_;
  const int rank_;
  double fetched_ns_ = 0;
};

static_assert(PeerMemory<SimMemory>);

}  // namespace rondo::sim
