// SPDX-License-Identifier: Apache-2.0
// Adds the loop network before all others in this process and in processes that it forks.
#pragma once

#include <functional>
#include <string>

namespace rondo::test {

// lacks: the reason why a rank cannot open it, or "". name: the name of the network that it
// replaces.
void add_loop_network(std::function<std::string(int rank)> lacks = {},
                      const std::string& name = "Loop");
// Number of regions of this process that are now registered with loop networks.
std::size_t registered_with_loop();

}  // namespace rondo::test
