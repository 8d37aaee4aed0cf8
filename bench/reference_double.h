// SPDX-License-Identifier: Apache-2.0
// The judge's computation for random and special floats: element by element in double.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/reference.h"

namespace rondo::bench {

// The finaliser of MurmurHash3: every input bit changes every output bit with probability 1/2.
constexpr std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

constexpr std::uint32_t stream_key(std::uint32_t seed, int rank) {
  return mix(seed * 0x9e3779b1u + static_cast<std::uint32_t>(rank) * 0x7feb352du + 1);
}

// The hash for the inputs of checked calls (reference.h): 32 mixed bits of (seed, rank, index).
constexpr std::uint32_t hash_at(std::uint32_t key, std::size_t index) {
  return mix(static_cast<std::uint32_t>(index) * 0x9e3779b1u +
             static_cast<std::uint32_t>(index >> 32) * 0x846ca68bu + key);
}

// A value for `rank` whose hash is the same on every rank: for choices that the ranks share.
inline constexpr int kShared = -1;

// The exact input element of a rank; for float types.
double float_input(const Recipe& recipe, int rank, std::size_t index);

struct Expected {
  double value;
  double tolerance;  // 0: must be equal (NaN: must be NaN)
  bool either_zero;  // zeros of both signs are right
};
Expected float_expected(const Recipe& recipe, std::size_t index);

}  // namespace rondo::bench
