// SPDX-License-Identifier: Apache-2.0
// The result check itself: it accepts a correct reduction in any order, and rejects one wrong bit.
#include "bench/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "bench/element_types.h"
#include "kernels/number.h"

namespace rondo::bench {
namespace {

constexpr std::size_t kCount = 3000;

std::uint64_t load(const TypeInfo& type, const std::vector<std::byte>& bytes, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * type.size, type.size);
  return bits;
}
void store(const TypeInfo& type, std::vector<std::byte>& bytes, std::size_t i, std::uint64_t bits) {
  std::memcpy(bytes.data() + i * type.size, &bits, type.size);
}

std::int64_t sign_extended(const TypeInfo& type, std::uint64_t bits) {
  const int unused = 64 - static_cast<int>(type.size) * 8;
  const auto top = static_cast<std::int64_t>(bits << unused);
  return type.is_signed ? top >> unused : static_cast<std::int64_t>(bits);
}

std::uint64_t combine_integers(const TypeInfo& type, Op op, std::uint64_t a, std::uint64_t b) {
  const bool less = type.is_signed ? sign_extended(type, a) < sign_extended(type, b) : a < b;
  switch (op) {
    case Op::kProd:
      return a * b;
    case Op::kMin:
      return less ? a : b;
    case Op::kMax:
      return less ? b : a;
    case Op::kBand:
      return a & b;
    case Op::kBor:
      return a | b;
    case Op::kBxor:
      return a ^ b;
    default:
      return a + b;
  }
}

double combine_floats(Op op, double a, double b) {
  if (op == Op::kProd) return a * b;
  if (op == Op::kMin || op == Op::kMax) {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    return op == Op::kMin ? std::min(a, b) : std::max(a, b);
  }
  return a + b;
}

// Like a simple library: rounds every step to the element type, ranks in the given order.
std::vector<std::byte> reduce(const Recipe& recipe, bool backwards) {
  const TypeInfo& type = info(recipe.type);
  std::vector<std::byte> result(kCount * type.size), input(kCount * type.size);
  for (int k = 0; k < recipe.ranks; ++k) {
    const int rank = backwards ? recipe.ranks - 1 - k : k;
    fill(recipe, rank, 0, kCount, input.data());
    const auto factor =
        static_cast<std::uint64_t>(recipe.op == Op::kMulSum ? mulsum_factor(rank) : 1);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::uint64_t in = load(type, input, i), before = load(type, result, i);
      if (type.is_float) {
        const double x = decode(type, in) * static_cast<double>(factor);
        store(type, result, i,
              encode(type, k == 0 ? x : combine_floats(recipe.op, decode(type, before), x)));
      } else {
        store(type, result, i,
              k == 0 ? in * factor : combine_integers(type, recipe.op, before, in * factor));
      }
    }
  }
  for (std::size_t i = 0; recipe.op == Op::kAvg && i < kCount; ++i) {
    const std::uint64_t sum = load(type, result, i);
    if (type.is_float)
      store(type, result, i, encode(type, decode(type, sum) / recipe.ranks));
    else if (type.is_signed)
      store(type, result, i, static_cast<std::uint64_t>(sign_extended(type, sum) / recipe.ranks));
    else
      store(type, result, i, sum / static_cast<unsigned>(recipe.ranks));
  }
  return result;
}

template <class Visit>
void for_each_recipe(Visit visit) {
  constexpr Op kAllOps[] = {Op::kSum,    Op::kProd, Op::kMin, Op::kMax, Op::kAvg,
                            Op::kMulSum, Op::kBand, Op::kBor, Op::kBxor};
  for (const TypeInfo& type : all_types())
    for (const Op op : kAllOps)
      for (const Values values : {Values::kExact, Values::kRandom, Values::kSpecial})
        for (const int ranks : {2, 3, 8, 13}) {
          if (!supported(op, type.type)) continue;
          SCOPED_TRACE(std::string(type.name) + " " + std::string(name(op)) + " values " +
                       std::to_string(static_cast<int>(values)) + " ranks " +
                       std::to_string(ranks));
          visit(Recipe{type.type, op, values, 7, ranks});
        }
}

TEST(BenchReference, AcceptsAnHonestReductionInAnyOrder) {
  for_each_recipe([](const Recipe& recipe) {
    for (const bool backwards : {false, true}) {
      std::string example;
      const std::vector<std::byte> result = reduce(recipe, backwards);
      EXPECT_EQ(count_wrong(recipe, -1, 0, kCount, result.data(), &example), 0u) << example;
    }
  });
}

TEST(BenchReference, RefusesTheInputOfOneRankAlone) {
  for_each_recipe([](const Recipe& recipe) {
    const TypeInfo& type = info(recipe.type);
    // With more roundings than a significand has steps, the tolerance is as large as the values.
    const bool blunt = type.is_float && recipe.values == Values::kRandom &&
                       recipe.ranks >= 1ll << type.significand_bits;
    if (blunt) return;
    std::vector<std::byte> own(kCount * type.size);
    fill(recipe, 0, 0, kCount, own.data());
    std::string example;
    EXPECT_GT(count_wrong(recipe, -1, 0, kCount, own.data(), &example), 0u);
    EXPECT_FALSE(example.empty());
  });
}

TEST(BenchReference, RefusesOneWrongBitOfExactValues) {
  for_each_recipe([](const Recipe& recipe) {
    if (recipe.values != Values::kExact || recipe.op == Op::kAvg) return;
    std::vector<std::byte> result = reduce(recipe, false);
    result[result.size() / 2] ^= std::byte{1};
    EXPECT_EQ(count_wrong(recipe, -1, 0, kCount, result.data(), nullptr), 1u);
  });
}

TEST(BenchReference, DemandsMovedDataBitByBit) {
  for (const TypeInfo& type : all_types()) {
    const Recipe recipe{type.type, Op::kNone, Values::kExact, 3, 4};
    std::vector<std::byte> data(kCount * type.size);
    fill(recipe, 2, 100, kCount, data.data());
    EXPECT_EQ(count_wrong(recipe, 2, 100, kCount, data.data(), nullptr), 0u);
    EXPECT_GT(count_wrong(recipe, 1, 100, kCount, data.data(), nullptr), kCount / 2);
    EXPECT_GT(count_wrong(recipe, 2, 101, kCount, data.data(), nullptr), kCount / 2);
    data[5 * type.size] ^= std::byte{0x80};
    EXPECT_EQ(count_wrong(recipe, 2, 100, kCount, data.data(), nullptr), 1u);
  }
}

TEST(BenchReference, SpecialValuesHoldNaNInfinityNegativeZeroAndSubnormals) {
  const Recipe recipe{ncclFloat32, Op::kSum, Values::kSpecial, 1, 4};
  std::vector<float> input(kCount);
  fill(recipe, 1, 0, kCount, input.data());
  int nan = 0, infinite = 0, negative_zero = 0, subnormal = 0;
  for (float x : input) {
    nan += std::isnan(x), infinite += std::isinf(x);
    negative_zero += x == 0 && std::signbit(x), subnormal += std::fpclassify(x) == FP_SUBNORMAL;
  }
  EXPECT_GT(nan, 0);
  EXPECT_GT(infinite, 0);
  EXPECT_GT(negative_zero, 0);
  EXPECT_GT(subnormal, 0);
}

TEST(BenchReference, SpecialValuesRefuseAFlushedSubnormalAndALostNaN) {
  const Recipe recipe{ncclFloat32, Op::kSum, Values::kSpecial, 1, 2};
  const std::vector<std::byte> honest = reduce(recipe, false);
  std::vector<float> spoilt(kCount);
  std::memcpy(spoilt.data(), honest.data(), honest.size());
  std::size_t changed = 0;
  for (float& x : spoilt)
    if (std::fpclassify(x) == FP_SUBNORMAL || std::isnan(x)) x = 0, ++changed;
  EXPECT_GT(changed, 0u);
  EXPECT_EQ(count_wrong(recipe, -1, 0, kCount, spoilt.data(), nullptr), changed);
}

template <class Format>
void same_conversions(ncclDataType_t which) {
  const TypeInfo& type = info(which);
  const std::uint32_t codes = 1u << (8 * type.size);
  for (std::uint32_t bits = 0; bits < codes; ++bits) {
    const double value = decode(type, bits);
    const double theirs = Format::widen(bits);
    ASSERT_TRUE(value == theirs || (std::isnan(value) && std::isnan(theirs))) << bits;
    if (!std::isnan(value)) {
      ASSERT_EQ(encode(type, value), bits);
    }
    // Values between this one and the next: halves, quarters, and values very close to the half.
    if (std::isnan(value) || std::isnan(decode(type, bits + 1))) continue;
    const double next = decode(type, bits + 1);
    if (!std::isfinite(next)) continue;
    for (const double part : {0.25, 0.5, 0.5001, 0.4999, 0.75}) {
      const auto between = static_cast<float>(value + (next - value) * part);
      ASSERT_EQ(encode(type, between), Format::narrow(between)) << between;
    }
  }
}

TEST(BenchReference, ItsConversionsAgreeWithTheLibrarysInEveryCode) {
  same_conversions<number::Float16>(ncclFloat16);
  same_conversions<number::Bfloat16>(ncclBfloat16);
  same_conversions<number::Float8e4m3>(ncclFloat8e4m3);
  same_conversions<number::Float8e5m2>(ncclFloat8e5m2);
}

}  // namespace
}  // namespace rondo::bench
