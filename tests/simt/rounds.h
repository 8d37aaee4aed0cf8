// Rounds of a test with a seed each: a few by default, thousands where RONDO_SIMT_ROUNDS multiplies
// them, one alone where RONDO_TEST_SEED names it. A round that fails says how to repeat it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>

#include "tests/support/seed.h"

namespace rondo::simt {

inline void for_each_round(int rounds, const std::function<void(std::uint64_t seed)>& round) {
  if (std::getenv("RONDO_TEST_SEED") != nullptr) return round(test_seed());
  const char* const times = std::getenv("RONDO_SIMT_ROUNDS");
  const std::uint64_t most = static_cast<std::uint64_t>(rounds) *
                             (times == nullptr ? 1 : std::strtoull(times, nullptr, 10));
  for (std::uint64_t seed = 1; seed <= most; ++seed) {
    round(seed);
    if (!testing::Test::HasFailure()) continue;
    ADD_FAILURE() << "repeat with RONDO_TEST_SEED=" << seed;
    return;
  }
}

}  // namespace rondo::simt
