// SPDX-License-Identifier: Apache-2.0
// Shared by the network tests: message bodies, and loops that make progress until a condition
// holds. Every wait is bounded.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/transport/auth/secret_of.h"
#include "transport/socket/address.h"

namespace rondo::test {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

inline constexpr auto kPatience = std::chrono::minutes(5);  // for something that must come

using auth::secret_of;

inline Bytes pattern(std::size_t bytes, std::uint64_t seed) {
  Bytes made(bytes);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&made[i], &word, std::min<std::size_t>(8, bytes - i));
  }
  return made;
}

// Calls `step` until `ready`; false after kPatience. What lasts long waits for a time of the
// product and leaves the core to others.
template <class Step, class Ready>
bool drive(Step&& step, Ready&& ready) {
  constexpr std::chrono::milliseconds kLong(50);
  const auto begun = Clock::now();
  while (!ready()) {
    step();
    const auto now = Clock::now();
    if (now - begun > kPatience) return false;
    if (now - begun > kLong) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

inline net::SocketAddress loopback(const char* text) {
  return net::resolve({text, 0}, AF_UNSPEC).value().front();
}

}  // namespace rondo::test
