// SPDX-License-Identifier: Apache-2.0
// Mbarrier: a barrier in shared memory at which threads arrive, phase after phase.
//
// A thread that observes the end of a phase sees everything done before the arrivals in it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/simt/machine/weak_memory.h"

namespace rondo::simt {

struct Thread;

struct Mbarrier {
  unsigned arrivals = 1;  // expected in a phase
  unsigned missing = 1;
  unsigned phase = 0;
  BarrierViews coming, over;     // of arrivals in this phase and in the previous one
  std::vector<Thread*> waiting;  // waiting for this phase

  bool is_over(unsigned parity) const { return phase % 2 != parity; }
  // Begins the next phase if this one is complete.
  void settle();
};

using Mbarriers = std::map<std::uint32_t, Mbarrier>;  // of a CTA, by address in shared memory

// The mbarrier of the running thread's CTA at that address; ends the kernel if there is none.
Mbarrier& mbarrier_at(std::uint32_t at);

}  // namespace rondo::simt
