// Channels: over which rings the GPUs of a host pass bytes on, so that all wires work at once.
//
// A channel visits each GPU once. On one host it is a ring; where there are several hosts it is a
// way that comes in by a port and leaves by one, and the ways of all hosts are joined to rings
// (cluster.h). All channels of a plan carry the same share, at `channel_gbs` each. The trees of a
// channel are those of base/double_tree.h over the same order, whose subtrees are stretches of it.
//
// Guarantees: no wire carries more than it can, by the routes of wires.h; equal hosts have equal
// plans on all machines, as the search's budget counts steps and no time. Where the budget did not
// end the search, no other number of channels up to `max_channels` gives more in total.
// Cost: at most kSearchSteps steps of nanoseconds each; plans that reach the bound end at once.
//
//   RONDO_TRY(const ChannelPlan plan, find_channels(graph, {.gpus = graph.gpus()}));
//   for (const Channel& channel : plan.channels) use(channel.gpus);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "topology/channels/ports.h"
#include "topology/channels/wires.h"

namespace rondo::topology {

struct Channel {
  std::vector<int> gpus{};  // nodes of the graph, in the ring's order
  int in = -1;              // node of the port by which it comes in; -1: it stays on the host
  int out = -1;
  friend bool operator==(const Channel&, const Channel&) = default;
};

struct ChannelRequest {
  std::span<const int> gpus;    // nodes
  std::span<const int> nics{};  // nodes; empty: the ranks have one host
  PortUse ports = PortUse::kPairs;
  int max_channels = 16;
};

struct ChannelPlan {
  std::vector<Channel> channels;
  double channel_gbs = 0;
  double bound_gbs = 0;   // of all channels; bound_gbs()
  Wires::Ends slowest{};  // the wire that would have to be faster
  bool complete = true;   // false: the budget ended before all was tried
  std::int64_t steps = 0;
  double gbs() const { return channel_gbs * static_cast<double>(channels.size()); }
};

inline constexpr std::int64_t kSearchSteps = 2'000'000;

// One GPU that stays on its host has no channel. kInvalidArgument: no GPU, or one that is no GPU
// of the graph.
Result<ChannelPlan> find_channels(const Graph& graph, const ChannelRequest& request);

}  // namespace rondo::topology
