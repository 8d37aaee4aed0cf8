// Puts the loop network before all others of this process, and of those that it forks.
#pragma once

#include <functional>
#include <string>

namespace rondo::test {

// lacks: a reason why a rank cannot open it, or "". name: in place of the network of that name.
void add_loop_network(std::function<std::string(int rank)> lacks = {},
                      const std::string& name = "Loop");
// How much memory of this process is registered with loop networks now.
std::size_t registered_with_loop();

}  // namespace rondo::test
