// SPDX-License-Identifier: Apache-2.0
// ChannelOrders: the order of a communicator's ranks in the ring and the trees of each channel of
// its kernels, and the network ports by which its channels leave and enter hosts.
//
// A plain value, found by find_orders(). Ranks with equal digests have the same layout. If
// digests differ, all ranks use the empty value: "rank after rank". Guarantees: every rank is in
// each ring once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/context/host_shape.h"
#include "collectives/context/rank_placement.h"
#include "collectives/planner/device_plan.h"
#include "topology/channels/cluster.h"
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

// Finds the order of the ranks on each channel of their kernels.
//
// Searches the topology graphs of the ranks' hosts (topology/channels), which all ranks know
// (rank_placement.h). The result is a pure function of the graphs and the given limits. It is empty
// (rank after rank) where nothing better is known: a GPU without a known link or with several
// ranks, a host without a port. Cost: the search.
struct OrdersRequest {
  const RankPlacement* placement = nullptr;  // null: unknown
  const HostShape& shape;
  int max_channels = 1;  // limit for the ranks
  int cross_nic = 2;     // NCCL_CROSS_NIC
};
ChannelOrders find_orders(const OrdersRequest& request);
// The orders of a channel plan in the form that kernels use. graphs: by host.
ChannelOrders orders_of(const topology::ClusterPlan& plan,
                        std::span<const topology::Graph* const> graphs);
// Takes its settings from the environment. Rank 0 logs the result; NCCL_GRAPH_DUMP_FILE_RANK writes
// it to a file. max_ctas: per rank.
ChannelOrders find_orders(const RankPlacement* placement, const HostShape& shape, int max_ctas,
                          int rank);

// Whether NVLink may join ranks of several hosts: NCCL_MNNVL_ENABLE asks for it, and
// NCCL_P2P_DISABLE does not exclude it.
bool wants_fabric();
// For ranks of several hosts that NVLink joins: rank after rank, at the rates of the first host's
// own rings. Empty if these are not known.
ChannelOrders find_joined_orders(const RankPlacement& placement, const HostShape& shape,
                                 int max_ctas);

// Ports of this rank's host in the order of its network's preference: first those by which rings
// leave or enter the host at this rank. `near`: the order without regard to rings.
topology::NearNics near_by_orders(const ChannelOrders& orders, const HostShape& shape, int rank,
                                  topology::NearNics near);

}  // namespace rondo::gpu
