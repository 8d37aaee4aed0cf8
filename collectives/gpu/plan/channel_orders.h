// SPDX-License-Identifier: Apache-2.0
// ChannelOrders: the order of a communicator's ranks in the ring and the trees of each channel of
// its kernels, and the network ports by which its channels leave and enter hosts.
//
// A plain value, found by channel_search.h. Ranks with equal digests have the same layout. If
// digests differ, all ranks use the empty value: "rank after rank". Guarantees: every rank is in
// each ring once.
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
    std::vector<int> ranks{};    // by position; hosts one after another
    std::vector<Ports> ports{};  // by host (HostShape); empty: one host
  };
  std::vector<Ring> rings{};  // channel c has rings[c % size]; empty: rank after rank
  double gbs = 0;             // GB/s of all rings together
  double bound_gbs = 0;
  WireRates rates{};  // set even if rings is empty since all channels go rank after rank

  const Ring* of(int channel) const {
    return rings.empty() ? nullptr : &rings[static_cast<std::size_t>(channel) % rings.size()];
  }
  // Whether the order on any channel differs from rank after rank.
  bool permutes() const;
  // Of rings and rates; 0 only for the empty value.
  std::uint64_t digest() const;
  // Sets the rates, and the roots that trees over positions support.
  void fill_facts(DevicePlanFacts* facts) const;
};

// {"gbs", "bound_gbs", "channels": [{"ranks", "hosts": [{"in", "out"}]}]}, in GB/s; the content of
// NCCL_GRAPH_DUMP_FILE.
std::string json_of(const ChannelOrders& orders);
// For logs: "2 rings ... 25 GB/s ...", and a line for each ring.
std::vector<std::string> describe(const ChannelOrders& orders);

}  // namespace rondo::gpu
