// Traffic: who uses the wires when. Messages pass wire after wire and wait where one is busy.
//
// A message is on its next wire as soon as its first byte is (cut-through), unless others are
// before it there. Cost: an addition and a comparison a wire. Reservations are to come in the order
// of their times (VirtualTime::settle).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sim/machine.h"

namespace rondo::sim {

class Traffic {
 public:
  explicit Traffic(const Machine& machine) : machine_(machine), used_(machine.wire_gbs.size()) {}

  // The time at which the last of `bytes` has arrived, if they are ready to send at `at_ns`.
  double send(std::span<const int> wires, double bytes, double at_ns);

  // -1: nothing was sent.
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
