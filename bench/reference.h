// SPDX-License-Identifier: Apache-2.0
// The judge: makes every rank's input from a hash of (seed, rank, index), and checks results.
// Written for clarity and independence; it shares no code with the library under test.
//
// Cost: kExact about 1 ns per element and rank, the others about 30 ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/element_types.h"

namespace rondo::bench {

// Recipe: what every rank's input of a checked call is, by a hash of (seed, rank, index), and what
// sums of random and special floats must be, element by element in double.
//
// Values:
//   kExact    Floats are small whole numbers; their sums are exact in any order. Products use
//             powers of two. Integers are any bits and wrap. Tolerance: none. Average of floats:
//             two units in the last place (division by n).
//   kRandom   Floats with full significands and several magnitudes. Tolerance: n roundings of the
//             sum of magnitudes (products: of the result); minimum and maximum: none.
//   kSpecial  NaN, infinities, zeros of both signs, subnormals; integers at their limits. NaN must
//             stay NaN, -0 must stay -0 where the sign does not depend on the order (minimum and
//             maximum may return either zero), subnormals must not be flushed.
// Data that is only moved must arrive bit for bit; it has all bit patterns, also NaNs.
enum class Values { kExact, kRandom, kSpecial };

struct Recipe {
  ncclDataType_t type = ncclFloat32;
  Op op = Op::kNone;  // kNone: the data is only moved
  Values values = Values::kExact;
  std::uint32_t seed = 0;
  int ranks = 1;
};

// The finaliser of MurmurHash3: every input bit changes every output bit with probability 1/2.
constexpr std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

constexpr std::uint32_t stream_key(std::uint32_t seed, int rank) {
  return mix(seed * 0x9e3779b1u + static_cast<std::uint32_t>(rank) * 0x7feb352du + 1);
}

// The hash for the inputs: 32 mixed bits of (seed, rank, index).
constexpr std::uint32_t hash_at(std::uint32_t key, std::size_t index) {
  return mix(static_cast<std::uint32_t>(index) * 0x9e3779b1u +
             static_cast<std::uint32_t>(index >> 32) * 0x846ca68bu + key);
}

// A value for `rank` whose hash is the same on every rank: for choices that the ranks share.
inline constexpr int kShared = -1;

// Factor of `rank`'s input in a mulsum: 1 (even rank) or 2 (odd rank).
inline int mulsum_factor(int rank) { return rank % 2 == 0 ? 1 : 2; }

// The exact input element of a rank; for float types.
double float_input(const Recipe& recipe, int rank, std::size_t index);

struct Expected {
  double value;
  double tolerance;  // 0: must be equal (NaN: must be NaN)
  bool either_zero;  // zeros of both signs are right
};
Expected float_expected(const Recipe& recipe, std::size_t index);

// Writes elements [first, first + count) of `rank`'s input.
void fill(const Recipe& recipe, int rank, std::size_t first, std::size_t count, void* out);

// Number of wrong elements at `got`. They must equal the input of rank `source` from `first` on, or
// with source -1 the reduction over all ranks. `example` receives a sentence on the first wrong
// one.
std::size_t count_wrong(const Recipe& recipe, int source, std::size_t first, std::size_t count,
                        const void* got, std::string* example);

}  // namespace rondo::bench
