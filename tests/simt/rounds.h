// SPDX-License-Identifier: Apache-2.0
// Rounds of a test, one seed each: a few by default; as many as fit into RONDO_SIMT_SECONDS if it
// is set (from a random first seed); only one if RONDO_TEST_SEED gives the seed. A failed round
// prints how to repeat it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/support/seed.h"

namespace rondo::simt {

inline void for_each_round(int rounds, const std::function<void(std::uint64_t seed)>& round) {
  using Clock = std::chrono::steady_clock;
  if (std::getenv("RONDO_TEST_SEED") != nullptr) return round(test_seed());
  const char* const seconds = std::getenv("RONDO_SIMT_SECONDS");
  const auto end = Clock::now() + std::chrono::seconds(seconds == nullptr ? 0 : std::atoi(seconds));
  const std::uint64_t first = seconds == nullptr ? 1 : test_seed();
  std::uint64_t seed = first;
  const auto goes_on = [&] {
    return seconds == nullptr ? seed < first + static_cast<std::uint64_t>(rounds)
                              : Clock::now() < end;
  };
  for (; goes_on(); ++seed) {
    round(seed);
    if (!testing::Test::HasFailure()) continue;
    ADD_FAILURE() << "repeat with RONDO_TEST_SEED=" << seed;
    return;
  }
  if (seconds != nullptr)
    std::printf("%llu rounds\n", static_cast<unsigned long long>(seed - first));
}

}  // namespace rondo::simt
