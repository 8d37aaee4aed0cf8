// SPDX-License-Identifier: Apache-2.0
// SimPush: a PeerMemory executor that moves no bytes but adds up their cost in virtual time, for
// ranks of one host that push their data into each other's staging, in lines with flags
// (kernels/cuda/ll_push.h).
//
// A round's data announces itself: nothing else is published or waited for. All CTAs of a rank are
// simulated as one. A CTA's rate is that of a job that reads lines and writes the same number. So
// lines that a rank only pushes or only receives cost half. One object per rank. Cost: about 100 ns
// per verb and peer.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/primitives.h"
#include "kernels/sim/machine.h"
#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

// State that the ranks of a call share.
class PushedRounds {
 public:
  PushedRounds(const Machine& machine, VirtualTime& time, Traffic& traffic, const VerbCost& cost,
               std::uint64_t element_bytes, int ctas, int ranks);

 private:
  friend class SimPush;
  struct Rank {
    std::vector<std::vector<double>> come_ns;  // by sender and round
    std::vector<Route> to;                     // by peer
    VirtualTime::Task waiting = VirtualTime::kNone;
  };
  VirtualTime& time_;
  Traffic& traffic_;
  const VerbCost cost_;
  const double element_bytes_;
  const int ctas_;
  std::vector<Rank> ranks_;
};

class SimPush {
 public:
  SimPush(PushedRounds& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(shared_.ranks_.size()); }

  void open(int) { ++round_; }
  void expose(int slot, const Piece& piece);
  void publish() {}
  void wait(int) {}
  void reduce(int slot, const Piece& piece, const Delivery& to);
  void copy(int from, int slot, const Piece& piece, std::uint64_t at);
  void copy_result(int, int, const Piece&) {}  // unused by these algorithms
  void copy_own(std::uint64_t, std::uint64_t, std::uint64_t) {}
  void release() {}

 private:
  PushedRounds::Rank& of(int rank) { return shared_.ranks_[static_cast<std::size_t>(rank)]; }
  void take(int from);
  double work_ns(std::uint64_t count, double lines, double cta_gbs) const;
  void pass(double ns) { shared_.time_.advance_to(shared_.time_.now_ns() + ns); }

  PushedRounds& shared_;
  const int rank_;
  std::size_t round_ = 0;  // from 1
};

static_assert(PeerMemory<SimPush>);

}  // namespace rondo::sim
