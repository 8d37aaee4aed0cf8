// SPDX-License-Identifier: Apache-2.0
// Any text as a topology file: it is refused, or its graph survives writing and reading and can be
// described.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "topology/graph/describe_graph.h"
#include "topology/graph/nccl_xml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo::topology;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_nccl_xml(text, "fuzzed");
  if (!parsed.ok()) {
    if (parsed.error().text.find("fuzzed") == std::string::npos) std::abort();
    return 0;
  }
  const auto again = parse_nccl_xml(write_nccl_xml(parsed->graph), "written");
  if (!again.ok() || again->graph.digest() != parsed->graph.digest()) std::abort();
  if (parsed->graph.nodes().size() < 64) describe_matrix(parsed->graph);
  return 0;
}
