// The seed of randomised tests: RONDO_TEST_SEED where it is set, to reproduce a failure by, else a
// new one. Tests print the seed of what fails.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace rondo {

inline std::uint64_t test_seed() {
  const char* fixed = std::getenv("RONDO_TEST_SEED");
  return fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
}

}  // namespace rondo
