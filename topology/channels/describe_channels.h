// Channels for people and for programs: what `rondo topo --channels` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "topology/channels/channels.h"

namespace rondo::topology {

// How fast all channels are beside what the wires allow, and each channel's devices in its order.
std::string describe(const Graph& graph, const ChannelPlan& plan);

// {"gbs", "bound_gbs", "channel_gbs", "slowest", "channels": [{"in", "gpus", "out"}]}, GB/s;
// devices by their labels.
nlohmann::ordered_json json_of(const Graph& graph, const ChannelPlan& plan);

// The graph for graphviz with each channel in a colour of its own.
std::string describe_dot(const Graph& graph, const ChannelPlan& plan);

}  // namespace rondo::topology
