// SPDX-License-Identifier: Apache-2.0
// Proves the promises of kernels/reduce.h: order, width, rounding, overflow, NaN, -0, averages.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/reduce.h"

namespace rondo {
namespace {

template <DataType type, RedOp op>
auto reduce(const std::vector<typename Element<type>::Storage>& in) {
  const int n = static_cast<int>(in.size());
  return reduce_sources<type, op>(n, n, [&](int s) { return in[s]; });
}

// The tree as a string: an accumulator whose sum writes parentheses.
struct Term {
  std::string text;
  friend Term operator+(const Term& l, const Term& r) { return {"(" + l.text + r.text + ")"}; }
};

TEST(ReductionTable, CombinesInTheBalancedTreeOverSourceNumbers) {
  const auto tree = [](int n) {
    return combine_tree<RedOp::kSum>(n, [](int s) { return Term{std::to_string(s)}; }).text;
  };
  EXPECT_EQ(tree(1), "0");
  EXPECT_EQ(tree(2), "(01)");
  EXPECT_EQ(tree(3), "((01)2)");
  EXPECT_EQ(tree(4), "((01)(23))");
  EXPECT_EQ(tree(5), "(((01)(23))4)");
  EXPECT_EQ(tree(6), "(((01)(23))(45))");
  EXPECT_EQ(tree(7), "(((01)(23))((45)6))");
  EXPECT_EQ(tree(8), "(((01)(23))((45)(67)))");
}

TEST(ReductionTable, HasNoBitwiseOperationsOnFloats) {
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      EXPECT_EQ(supported(t, o), !(is_float(t) && is_bitwise(o))) << name(t) << " " << name(o);
    }
  }
  EXPECT_FALSE(supported(static_cast<DataType>(kDataTypes), RedOp::kSum));
  EXPECT_FALSE(supported(DataType::kInt8, static_cast<RedOp>(kRedOps)));
}

TEST(ReductionTable, AccumulatesNarrowFloatsInFloat32AndRoundsOnce) {
  // 256 + 1 + 1 in bfloat16 steps stays 256; in float32 it is 258, which bfloat16 holds.
  const auto bf = [](float x) { return static_cast<std::uint16_t>(number::Bfloat16::narrow(x)); };
  EXPECT_EQ((reduce<DataType::kBfloat16, RedOp::kSum>({bf(256), bf(1), bf(1)})), bf(258));
  // The intermediate 65504 + 65504 exceeds float16; the result does not.
  EXPECT_EQ((reduce<DataType::kFloat16, RedOp::kSum>({0x7bff, 0x7bff, 0xfbff})), 0x7bff);
  EXPECT_EQ((reduce<DataType::kFloat16, RedOp::kAvg>({0x7bff, 0x7bff})), 0x7bff);
}

TEST(ReductionTable, RoundsTiesToEven) {
  const auto bf = [](float x) { return static_cast<std::uint16_t>(number::Bfloat16::narrow(x)); };
  EXPECT_EQ((reduce<DataType::kBfloat16, RedOp::kSum>({bf(256), bf(1)})), bf(256));
  EXPECT_EQ((reduce<DataType::kBfloat16, RedOp::kSum>({bf(256), bf(3)})), bf(260));
}

TEST(ReductionTable, WrapsIntegers) {
  EXPECT_EQ((reduce<DataType::kInt8, RedOp::kSum>({127, 1})), -128);
  EXPECT_EQ((reduce<DataType::kUint8, RedOp::kProd>({200, 200})), 200 * 200 % 256);
  EXPECT_EQ((reduce<DataType::kUint16, RedOp::kProd>({65535, 65535})), 1);
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ((reduce<DataType::kInt64, RedOp::kSum>({kMax, 1})),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((reduce<DataType::kInt32, RedOp::kProd>({1 << 30, 4})), 0);
}

TEST(ReductionTable, OverflowsFloatsToInfinityAndEightBitFloatsToTheLargestNumber) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ((reduce<DataType::kFloat32, RedOp::kSum>({kMax, kMax})), INFINITY);
  EXPECT_EQ((reduce<DataType::kFloat16, RedOp::kSum>({0x7bff, 0x7bff})), 0x7c00);
  EXPECT_EQ((reduce<DataType::kBfloat16, RedOp::kSum>({0xff7f, 0xff7f})), 0xff80);
  EXPECT_EQ((reduce<DataType::kFloat8e4m3, RedOp::kSum>({0x7e, 0x7e})), 0x7e);
  EXPECT_EQ((reduce<DataType::kFloat8e4m3, RedOp::kProd>({0xfe, 0x7e})), 0xfe);
  EXPECT_EQ((reduce<DataType::kFloat8e5m2, RedOp::kSum>({0x7b, 0x7b})), 0x7b);
  EXPECT_EQ((reduce<DataType::kFloat8e5m2, RedOp::kSum>({0x7c, 0x7b})), 0x7c);
}

template <RedOp op>
void expect_nan_to_spread() {
  const float nan = NAN;
  for (const std::vector<float>& in : std::vector<std::vector<float>>{
           {nan, 1}, {1, nan}, {1, 2, nan}, {nan, INFINITY}, {-INFINITY, nan}, {nan, nan}}) {
    EXPECT_TRUE(std::isnan(reduce<DataType::kFloat32, op>(in))) << name(op);
  }
  EXPECT_EQ((reduce<DataType::kFloat8e4m3, op>({0x7f, 0x10})) & 0x7f, 0x7f) << name(op);
  EXPECT_EQ((reduce<DataType::kFloat8e4m3, op>({0x10, 0xff})) & 0x7f, 0x7f) << name(op);
  EXPECT_TRUE(number::Float16::is_nan(reduce<DataType::kFloat16, op>({0x3c00, 0x7c01})));
  EXPECT_TRUE(number::Bfloat16::is_nan(reduce<DataType::kBfloat16, op>({0xffff, 0x3c00})));
}

TEST(ReductionTable, SpreadsNaN) {
  expect_nan_to_spread<RedOp::kSum>();
  expect_nan_to_spread<RedOp::kProd>();
  expect_nan_to_spread<RedOp::kMax>();
  expect_nan_to_spread<RedOp::kMin>();
  expect_nan_to_spread<RedOp::kAvg>();
}

TEST(ReductionTable, KeepsTheLowerRanksOperandWhereBothAreEqual) {
  const auto sign_of = [](float zero) { return std::signbit(zero); };
  EXPECT_TRUE(sign_of(reduce<DataType::kFloat32, RedOp::kMax>({-0.0f, 0.0f})));
  EXPECT_FALSE(sign_of(reduce<DataType::kFloat32, RedOp::kMax>({0.0f, -0.0f})));
  EXPECT_TRUE(sign_of(reduce<DataType::kFloat32, RedOp::kMin>({-0.0f, 0.0f})));
  EXPECT_FALSE(sign_of(reduce<DataType::kFloat32, RedOp::kMin>({0.0f, -0.0f})));
  EXPECT_FALSE(sign_of(reduce<DataType::kFloat32, RedOp::kSum>({0.0f, -0.0f})));
  EXPECT_TRUE(sign_of(reduce<DataType::kFloat32, RedOp::kSum>({-0.0f, -0.0f})));
}

TEST(ReductionTable, AveragesByOneMultiplicationOrOneTruncatingDivision) {
  EXPECT_EQ((reduce<DataType::kFloat32, RedOp::kAvg>({1, 2, 4})), 7.0f * (1.0f / 3.0f));
  EXPECT_EQ((reduce<DataType::kInt32, RedOp::kAvg>({-7, 0})), -3);
  EXPECT_EQ((reduce<DataType::kInt32, RedOp::kAvg>({7, 0})), 3);
  EXPECT_EQ((reduce<DataType::kUint64, RedOp::kAvg>({~0ull, 0})), ~0ull / 2);
  EXPECT_EQ((reduce<DataType::kInt8, RedOp::kAvg>({100, 100})), -28);  // the sum wrapped to -56
  // A divisor that the type cannot represent.
  EXPECT_EQ((reduce_sources<DataType::kInt8, RedOp::kAvg>(1, 300, [](int) { return 100; })), 0);
}

TEST(ReductionTable, ScalesInTheElementTypeForPreMulSum) {
  EXPECT_EQ(scaled<DataType::kUint8>(200, 2), 144);
  EXPECT_EQ(scaled<DataType::kFloat32>(3.0f, 0.5f), 1.5f);
  EXPECT_EQ(scaled<DataType::kFloat16>(0x7bff, 0x4000), 0x7c00);  // 65504 * 2
  EXPECT_EQ(scaled<DataType::kFloat8e4m3>(0x7e, 0x40), 0x7e);     // 448 * 2 saturates
}

}  // namespace
}  // namespace rondo
