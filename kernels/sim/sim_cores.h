// SimCores: cores that simulated ranks share. A rank holds its core while it works and yields it
// when it must wait. The next rank in the queue gets the core after `yield_ns`.
//
// Rank r always runs on core r modulo cores. Only tasks of one VirtualTime may use it. Cost: one
// queue per core.
#pragma once

#include <deque>
#include <vector>

#include "kernels/sim/virtual_time.h"

namespace rondo::sim {

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

}  // namespace rondo::sim
