// Values of any float type as doubles and back: the judge's own conversions, by arithmetic on
// values rather than on bits, so that they share nothing with what they judge.
#pragma once

#include <cstdint>

#include "bench/element_types.h"

namespace rondo::bench {

// The value that these bits mean (the low bits of `bits`; NaN where they mean one).
double decode(const TypeInfo& type, std::uint64_t bits);

// The bits of the value nearest to x, ties to even; beyond the largest value infinity, or, for a
// type without, the largest value. NaN gives a NaN.
std::uint64_t encode(const TypeInfo& type, double x);

}  // namespace rondo::bench
