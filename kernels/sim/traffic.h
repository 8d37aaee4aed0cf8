// Traffic: reserves the wires. A message uses the wires of its route one after another and waits
// where one is busy.
//
// A message enters its next wire as soon as its first byte arrives there (cut-through), unless
// earlier messages occupy it. Cost: one addition and one comparison per wire. Reservations must be
// made in time order (VirtualTime::settle).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sim/machine.h"

namespace rondo::sim {

class Traffic {
 public:
  explicit Traffic(const Machine& machine) : machine_(machine), used_(machine.wire_gbs.size()) {}

  // Returns when the last of `bytes` has arrived, if they are ready to send at `at_ns`.
  double send(std::span<const int> wires, double bytes, double at_ns);

  // busiest: -1 if nothing was sent.
  double busy_ns(int wire) const { return used_[static_cast<std::size_t>(wire)].busy_ns; }
  int busiest() const;

 private:
  struct Use {
    double free_ns = 0;
    double busy_ns = 0;
  };
  const Machine& machine_;
  std::vector<Use> used_;
};

}  // namespace rondo::sim
