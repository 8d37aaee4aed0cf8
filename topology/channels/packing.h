// SPDX-License-Identifier: Apache-2.0
// Packing: finds N channels of one speed over the wires of a host, or proves that N do not fit.
//
// A depth-first search. A channel is a list of choices (a port, the GPUs one by one, a port), tried
// from the fastest and shortest route on. Channels are in the order of their choices, so that no
// set is tried twice. A branch ends if a GPU has fewer free wires than channels remain.
//
//   Packing packing(wires, ports, speed);
//   if (packing.find(4, &steps) == Packing::kFound) use(packing.channels());
#pragma once

#include <cstdint>
#include <vector>

#include "topology/channels/wires.h"

namespace rondo::topology {

class Packing {
 public:
  enum Outcome : std::uint8_t { kFound, kNone, kOutOfSteps };

  // If `wires` have NICs, channels enter and leave by ports. Otherwise they are rings.
  Packing(const Wires& wires, PortUse ports, double channel_gbs);

  // *steps: in, the budget; out, what is left of it.
  Outcome find(int channels, std::int64_t* steps);
  const std::vector<Channel>& channels() const { return found_; }

 private:
  using Choices = std::vector<int>;  // indices in the lists of wires_

  bool place(int channel);                    // this one and all later ones
  bool extend(int channel, bool after_last);  // by one more choice
  bool take(int channel, int choice, Wires::Route route, bool after_last);
  bool has_room(int channels) const;
  bool is_free(Wires::Route route) const;
  const std::vector<int>& order_from(int place) const;
  std::vector<int> sorted(int count, const std::vector<Wires::Route>& routes) const;
  Channel channel_of(const Choices& choices) const;

  const Wires& wires_;
  const PortUse ports_;
  const bool over_network_;
  std::vector<int> free_;                       // by wire: number of channels that still fit
  std::vector<std::vector<int>> order_;         // by GPU: next GPUs, best first
  std::vector<std::vector<int>> order_in_;      // by port: first GPUs
  std::vector<std::vector<int>> order_out_;     // by last GPU: ports
  std::vector<int> ports_in_;                   // all ports, in order
  std::vector<std::vector<int>> first_, last_;  // by GPU: wires out of it, into it

  int wanted_ = 0;
  std::int64_t* steps_ = nullptr;
  std::vector<Choices> choices_;  // by channel
  std::vector<bool> visited_;     // GPUs of the channel that is being placed
  std::vector<Channel> found_;
};

// An upper bound for the rate of any set of channels: the minimum cut of the wires that routes use.
// In GB/s, for all channels together; for rings if `wires` have no ports. Infinite: no traffic.
//
// A ring on one host crosses every cut between two of its GPUs in both directions. A path through a
// host crosses every cut between the network and a GPU in both directions. It crosses every cut
// between two GPUs in at least one direction, and in both if it leaves by the port by which it
// entered. The minimum cut is a maximum flow (Ford and Fulkerson 1956; by shortest paths: Edmonds
// and Karp 1972). A GPU's own links and a host's ports are also such cuts. The bound does not
// depend on the search.
//
// Cost: four flows per GPU, each O(nodes * wires^2) at worst; 8 GPUs take microseconds.
double bound_gbs(const Wires& wires, PortUse ports);

}  // namespace rondo::topology
