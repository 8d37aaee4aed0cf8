// A barrier in shared memory at which threads and bulk copies arrive, phase after phase.
//
// A thread that sees a phase over sees all that was done before the arrivals in it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/simt/machine/weak_memory.h"

namespace rondo::simt {

struct Thread;

struct Mbarrier {
  unsigned arrivals = 1;  // of a phase
  unsigned missing = 1;
  std::uint64_t bytes = 0;  // of bulk copies, still to come
  unsigned phase = 0;
  BarrierViews coming, over;     // of those that arrived in this phase, and in the one before
  std::vector<Thread*> waiting;  // for this phase

  bool is_over(unsigned parity) const { return phase % 2 != parity; }
  // Begins the next phase where nothing is missing in this one.
  void settle();
};

using Mbarriers = std::map<std::uint32_t, Mbarrier>;  // of a CTA, by place in shared memory

// The running thread's CTA's at that place; the thread's kernel ends where there is none.
Mbarrier& mbarrier_at(std::uint32_t at);

}  // namespace rondo::simt
