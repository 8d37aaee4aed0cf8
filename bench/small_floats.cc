// SPDX-License-Identifier: Apache-2.0
#include "bench/small_floats.h"

#include <bit>
#include <cmath>
#include <limits>

namespace rondo::bench {
namespace {

struct Format {
  int mantissa_bits;  // stored
  int bias;
  std::uint64_t exponent_mask;
  std::uint64_t sign;
  std::uint64_t largest;  // bits of the largest value
};

Format format_of(const TypeInfo& type) {
  const int stored = type.significand_bits - 1;
  const int bias = 1 - type.smallest_exponent;
  const int width = static_cast<int>(type.size) * 8;
  const std::uint64_t exponents = (1ull << (width - 1 - stored)) - 1;
  const std::uint64_t ones = (1ull << stored) - 1;
  // In a type without infinity the highest exponent has normal values; only its last code is NaN.
  const std::uint64_t largest =
      type.has_infinity ? ((exponents - 1) << stored) | ones : ((exponents << stored) | ones) - 1;
  return {stored, bias, exponents, 1ull << (width - 1), largest};
}

}  // namespace

double decode(const TypeInfo& type, std::uint64_t bits) {
  if (type.type == ncclFloat64) return std::bit_cast<double>(bits);
  if (type.type == ncclFloat32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  const Format format = format_of(type);
  const std::uint64_t magnitude = bits & (format.sign - 1);
  const double sign = (bits & format.sign) != 0 ? -1 : 1;
  if (magnitude > format.largest) {
    const bool infinite = type.has_infinity && magnitude == format.largest + 1;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const double fraction = static_cast<double>(magnitude & ((1ull << format.mantissa_bits) - 1));
  const double hidden = exponent == 0 ? 0 : std::ldexp(1.0, format.mantissa_bits);
  const int scale = (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
  return sign * std::ldexp(fraction + hidden, scale);
}

std::uint64_t encode(const TypeInfo& type, double x) {
  if (type.type == ncclFloat64) return std::bit_cast<std::uint64_t>(x);
  if (type.type == ncclFloat32) return std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const Format format = format_of(type);
  const std::uint64_t sign = std::signbit(x) ? format.sign : 0;
  if (std::isnan(x)) return sign | (format.sign - 1);
  const double magnitude = std::fabs(x);
  if (magnitude == 0) return sign;
  int exponent = std::isinf(x) ? type.largest_exponent + 2 : std::ilogb(magnitude);
  exponent = std::max(exponent, type.smallest_exponent);
  std::uint64_t bits = format.largest + 1;
  if (exponent <= type.largest_exponent) {
    // In units of the last place. A carry into the next exponent also gives the right code.
    const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    const std::uint64_t base = static_cast<std::uint64_t>(exponent - type.smallest_exponent)
                               << format.mantissa_bits;
    bits = base + static_cast<std::uint64_t>(units);
  }
  if (bits > format.largest) bits = type.has_infinity ? format.largest + 1 : format.largest;
  if (type.type == ncclFloat8e5m2 && !std::isinf(x) && bits > format.largest) bits = format.largest;
  return sign | bits;
}

}  // namespace rondo::bench
