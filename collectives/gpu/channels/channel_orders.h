// ChannelOrders: in which order the ranks of a communicator stand in the ring and the trees of each
// channel of its kernels, and by which network ports its channels leave and enter hosts.
//
// A plain value, which channel_search.h finds. Ranks whose digests are equal lay out alike; where
// they are not, ranks take the empty one: "rank after rank". Guarantees: every rank stands once in
// each ring.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/planner/device_plan.h"
#include "topology/graph/nearness.h"

namespace rondo::gpu {

struct ChannelOrders {
  struct Ports {
    topology::NicName in{}, out{};
  };
  struct Ring {
    std::vector<int> ranks{};    // at every position; hosts one after the other
    std::vector<Ports> ports{};  // by host (HostShape); none: there is one host
  };
  std::vector<Ring> rings{};  // channel c has rings[c % size]; none: rank after rank on all
  double gbs = 0;             // of all rings together, of the wires, and what the wires allow
  double bound_gbs = 0;
  WireRates rates{};  // also where there are no rings here, as all channels go rank after rank

  const Ring* of(int channel) const {
    return rings.empty() ? nullptr : &rings[static_cast<std::size_t>(channel) % rings.size()];
  }
  // Whether ranks stand in an order of their own on any channel.
  bool permutes() const;
  // 0 for the empty one alone. Of rings and rates.
  std::uint64_t digest() const;
  // The rates, and which roots trees over positions take.
  void tell(DevicePlanFacts* facts) const;
};

// {"gbs", "bound_gbs", "channels": [{"ranks", "hosts": [{"in", "out"}]}]}, GB/s; what
// NCCL_GRAPH_DUMP_FILE gets.
std::string json_of(const ChannelOrders& orders);
// For people: "2 rings of 25 GB/s ...", and a line for each ring.
std::vector<std::string> describe(const ChannelOrders& orders);

}  // namespace rondo::gpu
