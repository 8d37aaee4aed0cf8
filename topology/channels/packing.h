// Packing: N channels of one speed over the wires of a host, or the proof that N do not fit.
//
// Depth first: a channel is a list of choices (a port, a GPU after the other, a port), tried from
// the fastest and shortest route on. Channels are tried in the order of their choices, so that no
// set comes twice. A branch ends where a GPU has fewer free wires than channels are still to come.
//
//   Packing packing(wires, ports, speed);
//   if (packing.find(4, &steps) == Packing::kFound) use(packing.channels());
#pragma once

#include <cstdint>
#include <vector>

#include "topology/channels/channels.h"

namespace rondo::topology {

class Packing {
 public:
  enum Outcome : std::uint8_t { kFound, kNone, kOutOfSteps };

  // nics of `wires`: channels come in by ports; none: they are rings.
  Packing(const Wires& wires, PortUse ports, double channel_gbs);

  // *steps: what may be spent, and what is left then.
  Outcome find(int channels, std::int64_t* steps);
  const std::vector<Channel>& channels() const { return found_; }

 private:
  using Choices = std::vector<int>;  // places in the lists of wires_

  bool place(int channel);                    // this one and all after it
  bool extend(int channel, bool after_last);  // by one choice more
  bool take(int channel, int choice, Wires::Route route, bool after_last);
  bool has_room(int channels) const;
  bool is_free(Wires::Route route) const;
  const std::vector<int>& order_from(int place) const;
  std::vector<int> sorted(int count, const std::vector<Wires::Route>& routes) const;
  Channel channel_of(const Choices& choices) const;

  const Wires& wires_;
  const PortUse ports_;
  const bool over_network_;
  std::vector<int> free_;                       // by wire: how many channels it can still take
  std::vector<std::vector<int>> order_;         // by GPU: the GPUs after it, best first
  std::vector<std::vector<int>> order_in_;      // by port: GPUs
  std::vector<std::vector<int>> order_out_;     // by GPU: ports
  std::vector<int> ports_in_;                   // all of them, as they come
  std::vector<std::vector<int>> first_, last_;  // by GPU: wires by which anything leaves, arrives

  int wanted_ = 0;
  std::int64_t* steps_ = nullptr;
  std::vector<Choices> choices_;  // by channel
  std::vector<bool> visited_;     // GPUs of the channel that is being placed
  std::vector<Channel> found_;
};

}  // namespace rondo::topology
