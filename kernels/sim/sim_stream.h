// SimStream: a ring, or a pair of trees, with its share of a call.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo::sim {

// Algorithms over peers' memory have one stream, in rank order.
struct SimStream {
  std::vector<int> order;  // the rank at every position
  int ctas = 1;
  std::uint64_t count = 0;      // elements of the call's `count`
  std::uint64_t per_round = 1;  // elements
  std::uint64_t slot_bytes = 0;
};

}  // namespace rondo::sim
