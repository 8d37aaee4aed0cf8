// SPDX-License-Identifier: Apache-2.0
// Finds the order of the ranks on each channel of their kernels (channel_orders.h).
//
// Searches the topology graphs of the ranks' hosts (topology/channels), which all ranks know
// (rank_placement.h). The result is a pure function of the graphs and the given limits. It is empty
// (rank after rank) where nothing better is known: a GPU without a known link or with several
// ranks, a host without a port. Cost: the search.
#pragma once

#include <span>

#include "collectives/context/host_shape.h"
#include "collectives/context/rank_placement.h"
#include "collectives/gpu/plan/channel_orders.h"
#include "topology/channels/cluster.h"
#include "topology/graph/nearness.h"

namespace rondo::gpu {

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
