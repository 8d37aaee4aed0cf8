// SPDX-License-Identifier: Apache-2.0
// Conversions between any float type and double, for the judge (reference.h). They use arithmetic
// on values, not on bits, so that they share nothing with the library under test.
#pragma once

#include <cstdint>

#include "bench/element_types.h"

namespace rondo::bench {

// The value of the low bits of `bits`; may be NaN.
double decode(const TypeInfo& type, std::uint64_t bits);

// The bits of the value nearest to x, ties to even. Beyond the largest value: infinity, or the
// largest value if the type has no infinity. NaN gives a NaN.
std::uint64_t encode(const TypeInfo& type, double x);

}  // namespace rondo::bench
