// SPDX-License-Identifier: Apache-2.0
// Channels as text for users and as JSON for programs: the output of `rondo topo --channels`.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "topology/channels/channels.h"

namespace rondo::topology {

// All devices of a channel, in order; a ring ends with its first device.
std::vector<int> devices_of(const Channel& channel);

// The total rate of all channels, the bound of the wires, and each channel's devices in order.
std::string describe(const Graph& graph, const ChannelPlan& plan);

// {"gbs", "bound_gbs", "channel_gbs", "complete", "slowest", "channels": [{"in", "gpus", "out"}]};
// rates in GB/s, devices by their labels.
Json json_of(const Graph& graph, const ChannelPlan& plan);

// The picture of a machine with its channels below: one frame and colour per channel, with the ring
// in its order (the first GPU is at both ends) and, if all ranks are on one host, its two trees.
//
// The trees are those of base/double_tree.h over the ring's order, as kernels use them.
std::string describe_dot(const Graph& graph, const ChannelPlan& plan);

}  // namespace rondo::topology
