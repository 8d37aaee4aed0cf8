// Any bytes: parse() either refuses them or gives a topology that serialises to the same bytes and
// can be described.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "topology/describe.h"
#include "topology/host_topology.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view blob(reinterpret_cast<const char*>(data), size);
  const auto host = rondo::topology::parse(blob);
  if (!host.ok()) return 0;
  if (rondo::topology::serialise(host.value()) != blob) std::abort();
  if (host.value().cores_total < 512 && rondo::topology::describe(host.value()).empty()) {
    std::abort();
  }
  return 0;
}
