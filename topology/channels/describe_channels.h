// Channels for people and for programs: what `rondo topo --channels` prints.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "topology/channels/channels.h"

namespace rondo::topology {

// All devices that a channel passes, in order; a ring comes back to its first.
std::vector<int> devices_of(const Channel& channel);

// How fast all channels are beside what the wires allow, and each channel's devices in its order.
std::string describe(const Graph& graph, const ChannelPlan& plan);

// {"gbs", "bound_gbs", "channel_gbs", "slowest", "channels": [{"in", "gpus", "out"}]}, GB/s;
// devices by their labels.
Json json_of(const Graph& graph, const ChannelPlan& plan);

}  // namespace rondo::topology
