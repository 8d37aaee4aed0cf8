// The picture of a machine and, below it, of its channels: a frame each, in a colour of its own,
// with the ring in its order (the first GPU stands at both ends) and, where all ranks are on one
// host, the two trees.
//
// Trees are those of base/double_tree.h over the ring's order, as kernels take them.
#pragma once

#include <string>

#include "topology/channels/channels.h"

namespace rondo::topology {

std::string describe_dot(const Graph& graph, const ChannelPlan& plan);

}  // namespace rondo::topology
