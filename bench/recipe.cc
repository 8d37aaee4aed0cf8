// SPDX-License-Identifier: Apache-2.0
#include "bench/reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace rondo::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double subnormal(const TypeInfo& type) {
  return std::ldexp(1.0, type.smallest_exponent - type.significand_bits + 1);
}

// Uniform in (-1, 1) with a full significand, scaled to one of four magnitudes.
double random_value(const TypeInfo& type, std::uint32_t hash, std::uint32_t more) {
  const int bits = type.significand_bits;
  const std::uint64_t wide = (static_cast<std::uint64_t>(hash) << 32) | more;
  const double units = static_cast<double>(wide >> (64 - bits));
  const double magnitude = std::ldexp(units, -bits - static_cast<int>(more & 3));
  return (more & 4) != 0 ? -magnitude : magnitude;
}

// A factor in [1, 2) on even ranks and [1/2, 1) on odd ranks, so that products stay in range. In
// types with a narrow range, ranks from 6 on have 1 or -1.
double random_factor(const TypeInfo& type, int rank, std::uint32_t hash, std::uint32_t more) {
  const int bits = type.significand_bits - 1;
  if (type.largest_exponent < 100 && rank >= 6) return (more & 4) != 0 ? -1 : 1;
  const double fraction =
      std::ldexp(static_cast<double>(hash >> std::max(0, 32 - bits)), -std::min(bits, 32));
  const double magnitude = (1 + fraction) * (rank % 2 == 0 ? 1 : 0.5);
  return (more & 4) != 0 ? -magnitude : magnitude;
}

// Values that occur together at one index: chosen so that the order of operations does not matter.
double special_value(const TypeInfo& type, Op op, int rank, std::uint32_t palette,
                     std::uint32_t hash) {
  // More ones than a narrow significand can count would be rounded, so further ranks are neutral.
  if (rank >= 1ll << (type.significand_bits - 1)) return op == Op::kProd ? 1 : -0.0;
  const double infinite = type.has_infinity ? kInfinity : 1;
  const double tiny = subnormal(type);
  const double choices[8][4] = {
      {-0.0, -0.0, -0.0, -0.0},     {-0.0, 0.0, -0.0, -0.0},
      {tiny, tiny, -tiny, 0.0},     {infinite, 1, infinite, 1},
      {infinite, -infinite, 1, -1}, {kNaN, 1, 1, 1},
      {-infinite, 1, -0.0, 1},      {1, -1, 1, 1},
  };
  // Products of subnormals become 0, and before or after an infinity that gives different results.
  if (op == Op::kProd && palette % 8 == 2) return hash % 4 == 0 ? -1 : 1;
  return choices[palette % 8][hash % 4];
}

}  // namespace

double float_input(const Recipe& recipe, int rank, std::size_t index) {
  assert(rank < recipe.ranks);
  const TypeInfo& type = info(recipe.type);
  const std::uint32_t hash = hash_at(stream_key(recipe.seed, rank), index);
  const std::uint32_t more = mix(hash + 0x68e31da4u);
  if (recipe.values == Values::kSpecial) {
    const std::uint32_t palette = hash_at(stream_key(recipe.seed, kShared), index);
    return special_value(type, recipe.op, rank, palette, hash);
  }
  return recipe.op == Op::kProd ? random_factor(type, rank, hash, more)
                                : random_value(type, hash, more);
}

Expected float_expected(const Recipe& recipe, std::size_t index) {
  const TypeInfo& type = info(recipe.type);
  const bool product = recipe.op == Op::kProd;
  long double result = 0, magnitudes = 0;
  for (int rank = 0; rank < recipe.ranks; ++rank) {
    long double x = float_input(recipe, rank, index);
    if (recipe.op == Op::kMulSum) x *= mulsum_factor(rank);
    magnitudes += std::fabs(x);
    if (rank == 0) {
      result = x;
    } else if (recipe.op == Op::kMin || recipe.op == Op::kMax) {
      if (std::isnan(result) || std::isnan(x)) {
        result = kNaN;
      } else {
        result = recipe.op == Op::kMin ? std::min(result, x) : std::max(result, x);
      }
    } else {
      result = product ? result * x : result + x;
    }
  }
  if (recipe.op == Op::kAvg) result /= recipe.ranks, magnitudes /= recipe.ranks;
  const bool selects = recipe.op == Op::kMin || recipe.op == Op::kMax;
  Expected expected{static_cast<double>(result), 0, selects};
  if (selects || !std::isfinite(expected.value)) return expected;
  const double rounding = std::ldexp(1.0, -type.significand_bits);  // half a unit in the last place
  const double roundings = recipe.ranks + (recipe.op == Op::kAvg ? 2 : 0);
  if (recipe.values == Values::kRandom)
    expected.tolerance =
        roundings * (rounding * static_cast<double>(product ? std::fabs(result) : magnitudes) +
                     subnormal(type));
  else if (recipe.op == Op::kAvg && expected.value != 0)
    expected.tolerance = 2 * (2 * rounding * std::fabs(expected.value) + subnormal(type));
  return expected;
}

}  // namespace rondo::bench
