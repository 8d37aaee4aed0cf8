// Which orders of the ranks the channels of their kernels have (channels/channel_orders.h).
//
// Found by the search over the graphs of the ranks' hosts (topology/channels), which all ranks know
// (placement.h): a pure function of these and of the limits given. Empty where nothing better is
// known than rank after rank: a GPU without a known link or with several ranks, a host without a
// port. Cost: the search's.
#pragma once

#include <span>

#include "collectives/communicator/host_shape.h"
#include "collectives/communicator/rank_placement.h"
#include "collectives/gpu/channels/channel_orders.h"
#include "topology/channels/cluster.h"
#include "topology/graph/nearness.h"

namespace rondo::gpu {

struct OrdersRequest {
  const RankPlacement* placement = nullptr;  // null: not known
  const HostShape& shape;
  int max_channels = 1;  // that the ranks may have
  int cross_nic = 2;     // NCCL_CROSS_NIC
};
ChannelOrders find_orders(const OrdersRequest& request);
// What kernels take of a plan of channels; graphs: by host.
ChannelOrders orders_of(const topology::ClusterPlan& plan,
                        std::span<const topology::Graph* const> graphs);
// By the environment: rank 0 logs what was found, NCCL_GRAPH_DUMP_FILE_RANK writes it.
// max_ctas: of a rank. rank: -1: the first rank finds it for all ranks, and does both.
ChannelOrders find_orders(const RankPlacement* placement, const HostShape& shape, int max_ctas,
                          int rank);

// The ports of this rank's host, those by which rings leave or enter it at this rank first: what
// its network takes. `near`: without regard to rings.
topology::NearNics near_by_orders(const ChannelOrders& orders, const HostShape& shape, int rank,
                                  topology::NearNics near);

}  // namespace rondo::gpu
