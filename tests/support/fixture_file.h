// Where the machines of tests/topology are: in the sources, or where TOPOLOGY_FIXTURES says, as on
// a machine to which only a bundle was carried (tests/gpu/pack.sh).
#pragma once

#include <cstdlib>
#include <string>

namespace rondo::test {

inline std::string fixture_file(const std::string& name) {
  const char* const carried = std::getenv("TOPOLOGY_FIXTURES");
  return std::string(carried ? carried : RONDO_FIXTURES_DIR) + "/" + name + ".xml";
}

}  // namespace rondo::test
