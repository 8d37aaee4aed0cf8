// SPDX-License-Identifier: Apache-2.0
// The judge: makes every rank's input from a hash of (seed, rank, index), and checks results.
// Written for clarity and independence; it shares no code with the library under test.
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
//
// Cost: kExact about 1 ns per element and rank, the others about 30 ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/element_types.h"

namespace rondo::bench {

enum class Values { kExact, kRandom, kSpecial };

struct Recipe {
  ncclDataType_t type = ncclFloat32;
  Op op = Op::kNone;  // kNone: the data is only moved
  Values values = Values::kExact;
  std::uint32_t seed = 0;
  int ranks = 1;
};

// Writes elements [first, first + count) of `rank`'s input.
void fill(const Recipe& recipe, int rank, std::size_t first, std::size_t count, void* out);

// Number of wrong elements at `got`. They must equal the input of rank `source` from `first` on, or
// with source -1 the reduction over all ranks. `example` receives a sentence on the first wrong
// one.
std::size_t count_wrong(const Recipe& recipe, int source, std::size_t first, std::size_t count,
                        const void* got, std::string* example);

// Factor of `rank`'s input in a mulsum: 1 (even rank) or 2 (odd rank).
inline int mulsum_factor(int rank) { return rank % 2 == 0 ? 1 : 2; }

}  // namespace rondo::bench
