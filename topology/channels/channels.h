// SPDX-License-Identifier: Apache-2.0
// Channels: the rings over which the GPUs of a host pass bytes on, so that all wires work at once.
//
// A channel visits each GPU once. On one host it is a ring. With several hosts it is a path that
// enters and leaves by ports, and the paths of all hosts are joined to rings (cluster.h).
// All channels of a plan carry the same share, at `channel_gbs` each. The trees of a channel are
// those of base/double_tree.h over the same order; their subtrees are contiguous parts of it.
//
// Guarantees: no wire carries more than its rate, by the routes of wires.h. Equal hosts have equal
// plans on all machines, because the search budget counts steps, not time. If the search ended
// within its budget, no other number of channels up to `max_channels` gives a higher total rate.
// Cost: at most kSearchSteps steps of nanoseconds each; a plan that reaches the bound ends at once.
//
//   RONDO_TRY(const ChannelPlan plan, find_channels(graph, {.gpus = graph.gpus()}));
//   for (const Channel& channel : plan.channels) use(channel.gpus);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "topology/channels/wires.h"

namespace rondo::topology {

struct ChannelRequest {
  std::span<const int> gpus;    // nodes
  std::span<const int> nics{};  // nodes; empty: all ranks are on one host
  PortUse ports = PortUse::kPairs;
  int max_channels = 16;
};

struct ChannelPlan {
  std::vector<Channel> channels;
  double channel_gbs = 0;
  double bound_gbs = 0;   // upper limit for all channels: bound_gbs()
  Wires::Ends slowest{};  // the wire that limits the rate
  bool complete = true;   // false: the budget ended before the search did
  std::int64_t steps = 0;
  double gbs() const { return channel_gbs * static_cast<double>(channels.size()); }
};

inline constexpr std::int64_t kSearchSteps = 2'000'000;

// A single GPU without ports has no channel. kInvalidArgument: no GPU, a node that is not a GPU (or
// port) of the graph, or max_channels below 1.
Result<ChannelPlan> find_channels(const Graph& graph, const ChannelRequest& request);

}  // namespace rondo::topology
