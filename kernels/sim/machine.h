// Machine: what simulated ranks run on. Wires, each with a rate, that carry what comes first first;
// the route from rank to rank; what a rank's kernels take for a verb.
//
// Rates are GB/s, which are bytes a nanosecond. A plain value: collectives/planner makes it of a
// graph and of priors, tests make uniform ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace rondo::sim {

// How one rank's bytes reach another one.
struct Route {
  std::vector<int> wires;  // in the order in which bytes pass them
  double latency_ns =
      0;  // from the last byte's arrival until the receiver has seen it; credits too
  // The sender goes on when its slot is filled, and somebody else sends it; else it stores into the
  // receiver's memory, and is not done before the wires have taken it.
  bool by_proxy = false;
};

// `channel`: of several rings, the number of the one.
using Routes = std::function<Route(int from, int to, int channel)>;

struct Machine {
  std::vector<double> wire_gbs;  // by wire
  Routes routes;
};

// What verbs take on a rank: of one CTA, and of all bytes on the wire for one of data.
struct VerbCost {
  double fixed_ns = 0;
  double copy_gbs = 0;  // 0: takes no time
  double sum_gbs = 0;
  double wire_bytes = 1;
};

// What a CTA takes for sums and copies inside a switch (NVLS).
struct MulticastCost {
  double load_ns = 0;             // a batch of loads of the rank's own memory, and its stores
  double sum_ns = 0;              // a batch of loads that the switch sums
  double barrier_ns = 0;          // from the last one's arrival until all have seen it
  std::uint64_t batch_bytes = 1;  // that a CTA has on the way at once
  double wire_bytes = 1;          // for one of data
};

}  // namespace rondo::sim
