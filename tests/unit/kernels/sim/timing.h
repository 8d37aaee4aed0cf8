// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of simulated time: machines whose ranks have one wire out and one wire in, so
// that times can be computed by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/sim/machine.h"

namespace rondo::sim {

inline constexpr double kUniformGbs = 50, kUniformLatency = 700;  // GB/s, ns

// Wire r leads out of rank r, wire n + r into it; nothing else limits it.
inline Machine uniform(int ranks, double gbs = kUniformGbs, double latency = kUniformLatency,
                       bool by_proxy = false) {
  Machine machine;
  machine.wire_gbs.assign(2 * static_cast<std::size_t>(ranks), gbs);
  machine.routes = [=](int from, int to, int) {
    return Route{{from, ranks + to}, latency, by_proxy};
  };
  return machine;
}

inline void expect_near(double found, double wanted, double share = 1e-9) {
  EXPECT_LE(std::abs(found - wanted), share * wanted) << found << " beside " << wanted;
}

}  // namespace rondo::sim
