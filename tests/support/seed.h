// SPDX-License-Identifier: Apache-2.0
// The seed of randomised tests: RONDO_TEST_SEED if it is set, to reproduce a failure, otherwise a
// new one. TestSeed prints the seed when a test fails.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace rondo {

inline std::uint64_t test_seed() {
  const char* fixed = std::getenv("RONDO_TEST_SEED");
  return fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
}

// While one exists, every failure of its thread prints how to reproduce it.
struct SeedTrace {
  explicit SeedTrace(unsigned seed, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE())
      : trace(file, line, "reproduce with RONDO_TEST_SEED=" + std::to_string(seed)) {}
  const testing::ScopedTrace trace;
};
struct TestSeed {
  explicit TestSeed(const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : value(static_cast<unsigned>(test_seed())), trace(value, file, line) {}
  const unsigned value;
  const SeedTrace trace;
};

}  // namespace rondo
