// SPDX-License-Identifier: Apache-2.0
// What a process holds: descriptors, mappings of shared memory and of its own, threads.
#pragma once

#include <string>
#include <vector>

namespace rondo::test {

struct Census {
  static Census now();
  // Waits until the process holds the same as in `before`, because threads end and sockets close by
  // themselves. Returns what it holds beyond that; empty: nothing.
  static std::string growth_since(const Census& before);

  std::vector<std::string> descriptors;  // kind of each, sorted
  int shared_mappings = 0;
  long own_mappings = 0;
  int threads = 0;
};

}  // namespace rondo::test
