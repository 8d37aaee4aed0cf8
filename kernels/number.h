// SPDX-License-Identifier: Apache-2.0
// Exact conversions between binary32 and the narrow floats: float16, bfloat16, float8e4m3,
// float8e5m2. They use integer arithmetic and at most one float operation, which is exact or rounds
// once. Therefore every compiler, host and CUDA, gives the same bits.
//
//   widen: exact for every value. NaN stays NaN.
//   narrow: rounds to nearest, ties to even, subnormals included. Above the largest finite value:
//     float16, bfloat16  infinity (IEEE 754).
//     float8e4m3         "fn" of the OCP 8-bit specification: no infinity, NaN is 0x7f or 0xff.
//                        Everything above 448, infinity included, saturates to 448.
//     float8e5m2         finite values above 57344 saturate to 57344; infinity stays infinity.
//   Why the 8-bit formats saturate: a sum that merely overflows should not turn a whole tensor into
//   NaN one step later. CUDA's conversions (cvt.rn.satfinite) do the same. Infinity stays in e5m2
//   so that widen and narrow are inverses.
//   NaN: the result is a NaN of the type; its sign and payload are unspecified.
#pragma once

#include <cstdint>

#include "base/fn.h"

namespace rondo::number {

RONDO_FN constexpr float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
RONDO_FN constexpr std::uint32_t as_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

enum class Overflow { kInfinity, kSaturate };

// A float of 1 + exponent + mantissa bits with fewer exponent bits than binary32 has.
// has_infinity: the highest exponent means infinity and NaN; otherwise only its last code is NaN.
template <int exponent_bits, int mantissa_bits, bool has_infinity, Overflow overflow>
struct MiniFloat {
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr std::uint32_t kSign = 1u << (exponent_bits + mantissa_bits);
  static constexpr std::uint32_t kMagnitude = kSign - 1;
  static constexpr std::uint32_t kInfinity =  // if there is none: NaN, the code after the max
      has_infinity ? kMagnitude & ~((1u << mantissa_bits) - 1) : kMagnitude;
  static constexpr std::uint32_t kLargest = kInfinity - 1;
  static constexpr std::uint32_t kNaN = kMagnitude;
  static constexpr std::uint32_t kOverflowed =
      overflow == Overflow::kInfinity ? kInfinity : kLargest;
  static constexpr std::uint32_t kInfinityBecomes = has_infinity ? kInfinity : kLargest;
  // Difference of the exponent fields, in the position of binary32's.
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  // The smallest normal value, as binary32 bits.
  static constexpr std::uint32_t kSmallestNormal = kRebias + (1u << 23);
  // One unit in the last place of this constant is one subnormal step of the narrow type: adding
  // it to a small value rounds that value to the step.
  static constexpr std::uint32_t kSubnormalMagic =
      static_cast<std::uint32_t>(127 + 1 - kBias - mantissa_bits + 23) << 23;
  // The value of one subnormal step.
  static constexpr std::uint32_t kSubnormalStep =
      static_cast<std::uint32_t>(127 + 1 - kBias - mantissa_bits) << 23;

  static RONDO_FN constexpr float widen(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & kMagnitude;
    std::uint32_t wide = (magnitude << kShift) + kRebias;
    if (magnitude < (1u << mantissa_bits)) {
      wide = as_bits(static_cast<float>(magnitude) * as_float(kSubnormalStep));
    } else if (magnitude >= kInfinity) {
      wide = has_infinity ? 0x7f800000u | (magnitude << kShift) : 0x7fc00000u;
    }
    return as_float(wide | ((bits & kSign) << (31 - exponent_bits - mantissa_bits)));
  }

  static RONDO_FN constexpr std::uint32_t narrow(float value) {
    const std::uint32_t bits = as_bits(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t sign = (bits >> (31 - exponent_bits - mantissa_bits)) & kSign;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000u) {
      result = kNaN;
    } else if (magnitude == 0x7f800000u) {
      result = kInfinityBecomes;
    } else if (magnitude < kSmallestNormal) {
      result = as_bits(as_float(magnitude) + as_float(kSubnormalMagic)) - kSubnormalMagic;
    } else {
      const std::uint32_t last_bit = (magnitude >> kShift) & 1;
      const std::uint32_t half_below = (1u << (kShift - 1)) - 1;
      result = (magnitude - kRebias + half_below + last_bit) >> kShift;
      if (result > kLargest) result = kOverflowed;
    }
    return result | sign;
  }

  static RONDO_FN constexpr bool is_nan(std::uint32_t bits) {
    return (bits & kMagnitude) > (has_infinity ? kInfinity : kLargest);
  }
};

using Float16 = MiniFloat<5, 10, true, Overflow::kInfinity>;
using Float8e4m3 = MiniFloat<4, 3, false, Overflow::kSaturate>;
using Float8e5m2 = MiniFloat<5, 2, true, Overflow::kSaturate>;

// The upper half of a binary32.
struct Bfloat16 {
  static RONDO_FN constexpr float widen(std::uint32_t bits) { return as_float(bits << 16); }
  static RONDO_FN constexpr std::uint32_t narrow(float value) {
    const std::uint32_t bits = as_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  }
  static RONDO_FN constexpr bool is_nan(std::uint32_t bits) { return (bits & 0x7fffu) > 0x7f80u; }
};

}  // namespace rondo::number
