// SPDX-License-Identifier: Apache-2.0
// Conversions of narrow floats against independent code: the compiler's _Float16, and for the other
// types a search for the nearest value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/number.h"

namespace rondo::number {
namespace {

// The value of a code by its format's definition: sign, exponent, mantissa.
double defined_value(std::uint32_t code, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const bool highest = exponent == (1 << exponent_bits) - 1;
  const double sign = code >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (highest && has_infinity) return mantissa ? NAN : sign * INFINITY;
  if (highest && mantissa == (1u << mantissa_bits) - 1) return NAN;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

template <class Format>
void expect_widen_by_definition(int exponent_bits, int mantissa_bits, bool has_infinity) {
  const std::uint32_t codes = 1u << (1 + exponent_bits + mantissa_bits);
  for (std::uint32_t code = 0; code < codes; ++code) {
    const double wanted = defined_value(code, exponent_bits, mantissa_bits, has_infinity);
    const float got = Format::widen(code);
    ASSERT_EQ(std::isnan(got), std::isnan(wanted)) << std::hex << code;
    ASSERT_EQ(Format::is_nan(code), std::isnan(wanted)) << std::hex << code;
    if (std::isnan(wanted)) {
      ASSERT_TRUE(Format::is_nan(Format::narrow(got))) << std::hex << code;
      continue;
    }
    ASSERT_EQ(got, wanted) << std::hex << code;
    ASSERT_EQ(std::signbit(got), std::signbit(wanted)) << std::hex << code;
    ASSERT_EQ(Format::narrow(got), code) << "narrow must undo widen";
  }
}

TEST(Number, WidenGivesEveryCodeItsDefinedValueAndNarrowUndoesIt) {
  expect_widen_by_definition<Float16>(5, 10, true);
  expect_widen_by_definition<Bfloat16>(8, 7, true);
  expect_widen_by_definition<Float8e4m3>(4, 3, false);
  expect_widen_by_definition<Float8e5m2>(5, 2, true);
}

// The finite code nearest to a positive finite value, ties to the even code, found by search.
// `beyond` is the code for values that round past the largest one.
class Nearest {
 public:
  Nearest(int exponent_bits, int mantissa_bits, bool has_infinity, std::uint32_t beyond)
      : beyond_(beyond) {
    for (std::uint32_t code = 0;; ++code) {
      const double v = defined_value(code, exponent_bits, mantissa_bits, has_infinity);
      if (!std::isfinite(v)) break;
      values_.push_back(v);
    }
    const std::size_t last = values_.size() - 1;
    values_.push_back(2 * values_[last] - values_[last - 1]);  // the next step, out of range
  }
  std::uint32_t operator()(double value) const {
    const auto above = std::lower_bound(values_.begin(), values_.end(), value);
    if (above == values_.end()) return beyond_;
    auto code = static_cast<std::uint32_t>(above - values_.begin());
    if (code > 0) {
      const double up = *above - value;
      const double down = value - *(above - 1);
      if (down < up || (down == up && (code & 1))) --code;
    }
    return code + 1 == values_.size() ? beyond_ : code;
  }

 private:
  std::vector<double> values_;
  std::uint32_t beyond_;
};

template <class Format>
void expect_narrow_to_nearest(const Nearest& nearest, int bits, std::uint32_t codes) {
  const std::uint32_t sign = 1u << (bits - 1);
  const auto expect = [&](float value) {
    const auto wanted = nearest(value);
    ASSERT_EQ(Format::narrow(value), wanted) << std::hexfloat << value;
    ASSERT_EQ(Format::narrow(-value), wanted | sign) << std::hexfloat << -value;
  };
  // Values around every code and around every tie between neighbours.
  for (std::uint32_t code = 0; code + 1 < codes; ++code) {
    const float low = Format::widen(code);
    const float tie = low + (Format::widen(code + 1) - low) / 2;  // exact: one more bit
    for (const float v : {low, tie}) {
      expect(v);
      expect(std::nextafter(v, INFINITY));
      if (v > 0) expect(std::nextafter(v, 0.0f));
    }
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const float v = std::fabs(as_float(static_cast<std::uint32_t>(random())));
    if (std::isfinite(v)) expect(v);
  }
  expect(std::numeric_limits<float>::max());
  expect(std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(Format::is_nan(Format::narrow(NAN)));
  EXPECT_TRUE(Format::is_nan(Format::narrow(as_float(0x7f800001))));
  EXPECT_TRUE(Format::is_nan(Format::narrow(as_float(0xffffffff))));
}

TEST(Number, NarrowRoundsToTheNearestAndTiesToEven) {
  expect_narrow_to_nearest<Float16>({5, 10, true, 0x7c00}, 16, 0x7c00);
  expect_narrow_to_nearest<Bfloat16>({8, 7, true, 0x7f80}, 16, 0x7f80);
  expect_narrow_to_nearest<Float8e4m3>({4, 3, false, 0x7e}, 8, 0x7f);
  expect_narrow_to_nearest<Float8e5m2>({5, 2, true, 0x7b}, 8, 0x7c);
}

TEST(Number, InfinityStaysWhereTheFormatHasOneAndSaturatesElsewhere) {
  EXPECT_EQ(Float16::narrow(INFINITY), 0x7c00u);
  EXPECT_EQ(Bfloat16::narrow(-INFINITY), 0xff80u);
  EXPECT_EQ(Float8e4m3::narrow(INFINITY), 0x7eu);
  EXPECT_EQ(Float8e4m3::narrow(-INFINITY), 0xfeu);
  EXPECT_EQ(Float8e5m2::narrow(-INFINITY), 0xfcu);
}

#ifdef __FLT16_MAX__
#ifdef __aarch64__
using Half = __fp16;  // GCC 11 has no _Float16 in C++ there
#else
using Half = _Float16;
#endif

TEST(Number, Float16AgreesWithTheCompiler) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = __builtin_bit_cast(Half, static_cast<std::uint16_t>(code));
    const auto wanted = static_cast<float>(half);
    const float got = Float16::widen(code);
    ASSERT_EQ(std::isnan(got), std::isnan(wanted)) << std::hex << code;
    if (!std::isnan(wanted)) {
      ASSERT_EQ(as_bits(got), as_bits(wanted)) << std::hex << code;
    }
  }
  // Covers every exponent and sign, and all mantissas whose bits affect rounding.
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 509) {
    const float value = as_float(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    const auto half = static_cast<Half>(value);
    ASSERT_EQ(Float16::narrow(value), __builtin_bit_cast(std::uint16_t, half))
        << std::hexfloat << value;
  }
}
#endif

}  // namespace
}  // namespace rondo::number
