// SPDX-License-Identifier: Apache-2.0
// Any bytes: parse_graph() refuses them, or returns a graph that survives a round trip unchanged.
#include <cstdint>
#include <cstdlib>

#include "topology/graph/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graph = rondo::topology::parse_graph({reinterpret_cast<const std::byte*>(data), size});
  if (!graph.ok()) return 0;
  const auto again = rondo::topology::parse_graph(rondo::topology::serialise(*graph));
  if (!again.ok() || *again != *graph) std::abort();
  return 0;
}
