// SPDX-License-Identifier: Apache-2.0
// Folder of the machines of tests/topology: in the sources, or TOPOLOGY_FIXTURES if it is set, as
// on a machine that has only a bundle (tests/gpu/pack.sh).
#pragma once

#include <cstdlib>
#include <string>

namespace rondo::test {

inline std::string fixture_file(const std::string& name) {
  const char* const carried = std::getenv("TOPOLOGY_FIXTURES");
  return std::string(carried ? carried : RONDO_FIXTURES_DIR) + "/" + name + ".xml";
}

}  // namespace rondo::test
