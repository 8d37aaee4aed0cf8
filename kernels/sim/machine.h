// SPDX-License-Identifier: Apache-2.0
// Machine: the hardware model that simulated ranks run on. Wires have a rate and serve transfers in
// arrival order; a route is defined from each rank to each other; verbs have a cost.
//
// Rates are GB/s, which equals bytes per nanosecond. A plain value: collectives/planner makes it
// from a graph and priors; tests make uniform ones.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace rondo::sim {

// The route of one rank's bytes to another rank.
struct Route {
  std::vector<int> wires;  // in the order in which bytes use them
  double latency_ns = 0;   // from the last byte's arrival until the receiver sees it; credits too
  // True: a proxy sends; the sender continues when its slot is filled. False: the sender stores
  // into the receiver's memory and continues when the wires have carried the data.
  bool by_proxy = false;
};

// `channel`: the number of the ring, if there are several.
using Routes = std::function<Route(int from, int to, int channel)>;

struct Machine {
  std::vector<double> wire_gbs;  // by wire
  Routes routes;
};

// Cost of verbs on a rank: per CTA; wire_bytes: bytes on the wire per byte of data.
struct VerbCost {
  double fixed_ns = 0;
  double copy_gbs = 0;  // 0: costs no time
  double sum_gbs = 0;
  double wire_bytes = 1;
};

// Cost, per CTA, of sums and copies inside a switch (NVLS).
struct MulticastCost {
  double load_ns = 0;             // a batch of loads of own memory, and its stores
  double sum_ns = 0;              // a batch of loads that the switch sums
  double barrier_ns = 0;          // from the last arrival until all have seen it
  std::uint64_t batch_bytes = 1;  // in flight at once per CTA
  double wire_bytes = 1;          // per byte of data
};

// Traffic: reserves the wires. A message uses the wires of its route one after another and waits
// where one is busy.
//
// A message enters its next wire as soon as its first byte arrives there (cut-through), unless
// earlier messages occupy it. Cost: one addition and one comparison per wire. Reservations must be
// made in time order (VirtualTime::settle).
class Traffic {
 public:
  explicit Traffic(const Machine& machine) : machine_(machine), used_(machine.wire_gbs.size()) {}

  // Returns when the last of `bytes` has arrived, if they are ready to send at `at_ns`.
  double send(std::span<const int> wires, double bytes, double at_ns);

  // The same for one wire. begin_ns: when the first byte may enter the next one.
  struct Passed {
    double begin_ns, end_ns;
  };
  Passed pass(int wire, double bytes, double at_ns);

  // When a wire has carried all that was sent so far.
  double free_ns(int wire) const { return used_[static_cast<std::size_t>(wire)].free_ns; }
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

inline Traffic::Passed Traffic::pass(int wire, double bytes, double at_ns) {
  assert(wire >= 0 && static_cast<std::size_t>(wire) < used_.size() && bytes >= 0);
  Use& use = used_[static_cast<std::size_t>(wire)];
  const double takes = bytes / machine_.wire_gbs[static_cast<std::size_t>(wire)];
  const double begin = std::max(at_ns, use.free_ns);
  use.free_ns = begin + takes;
  use.busy_ns += takes;
  return {begin, begin + takes};
}

inline double Traffic::send(std::span<const int> wires, double bytes, double at_ns) {
  Passed passed{at_ns, at_ns};
  double end = at_ns;
  for (const int wire : wires) {
    passed = pass(wire, bytes, passed.begin_ns);
    end = std::max(end, passed.end_ns);
  }
  return end;
}

inline int Traffic::busiest() const {
  const auto maximum = std::max_element(
      used_.begin(), used_.end(), [](const Use& a, const Use& b) { return a.busy_ns < b.busy_ns; });
  return maximum == used_.end() || maximum->busy_ns == 0
             ? -1
             : static_cast<int>(maximum - used_.begin());
}

}  // namespace rondo::sim
