// The picture of a machine with its channels below: one frame and colour per channel, with the ring
// in its order (the first GPU is at both ends) and, if all ranks are on one host, its two trees.
//
// The trees are those of base/double_tree.h over the ring's order, as kernels use them.
#pragma once

#include <string>

#include "topology/channels/channels.h"

namespace rondo::topology {

std::string describe_dot(const Graph& graph, const ChannelPlan& plan);

}  // namespace rondo::topology
