// The judge: inputs of every rank from a hash of (seed, rank, index), and what a result must be.
// Written for clarity and independence; it shares no code with what it judges.
//
// Values:
//   kExact    Floats are small whole numbers whose sums no order of additions can round; products
//             are of powers of two. Integers are any bits and wrap. Tolerance: none. Average of
//             floats: two units in the last place (division by n).
//   kRandom   Floats with full significands of several magnitudes. Tolerance: n roundings of the
//             sum of magnitudes (of the result, for products); minimum and maximum: none.
//   kSpecial  NaN, infinities, zeros of both signs, subnormals; integers at their limits. NaN must
//             stay NaN, -0 must stay -0 where the sign does not depend on the order (minimum and
//             maximum may return either zero), subnormals must not be flushed.
// What is only moved must arrive bit by bit; there all bit patterns occur, NaNs too.
//
// Cost: exact about 1 ns an element and rank, the others about 30.
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

// Elements [first, first + count) of that rank's input.
void fill(const Recipe& recipe, int rank, std::size_t first, std::size_t count, void* out);

// How many of the elements at `got` are not what they must be: that rank's inputs from `first` on,
// or with source -1 the reduction over all ranks. `example` gets a sentence on the first wrong one.
std::size_t count_wrong(const Recipe& recipe, int source, std::size_t first, std::size_t count,
                        const void* got, std::string* example);

// By what rank `rank` multiplies its input in a mulsum: 1 (even) or 2 (odd).
inline int mulsum_factor(int rank) { return rank % 2 == 0 ? 1 : 2; }

}  // namespace rondo::bench
