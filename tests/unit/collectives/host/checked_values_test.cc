// SPDX-License-Identifier: Apache-2.0
// A correct reduction in any order is never called different; a flipped bit is, unless rounding
// could have caused it.
#include "collectives/host/checked_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/host/simd/reduce_portable.h"
#include "tests/support/seed.h"

namespace rondo {
namespace {

constexpr std::size_t kCount = 64;

using Inputs = std::vector<std::vector<std::byte>>;

Inputs random_inputs(DataType type, int ranks, std::mt19937& random) {
  Inputs inputs(static_cast<std::size_t>(ranks));
  for (auto& input : inputs) {
    input.resize(kCount * size_of(type));
    for (std::byte& byte : input) byte = static_cast<std::byte>(random());
  }
  return inputs;
}

struct Checked {
  DataType type;
  RedOp op;
  const Inputs& inputs;

  CheckedReduction expected(Exactness exactness) {
    sources.clear();
    for (const auto& input : inputs) sources.push_back(input.data());
    return {type, op, sources, kCount, exactness};
  }
  std::optional<DifferentElement> find(Exactness exactness, const std::vector<std::byte>& got) {
    std::vector<std::byte> scratch;
    return find_different(expected(exactness), got.data(), scratch);
  }
  std::vector<const std::byte*> sources;
};

// The sum from rank `first` on, around the ring; rounded to the type after each step.
std::vector<std::byte> in_ring_order(DataType type, RedOp op, const Inputs& inputs,
                                     std::size_t first) {
  std::vector<std::byte> result = inputs[first];
  const host::ReduceFn reduce = host::portable::with_type(
      type, [&]<DataType t>() { return host::portable::function<t>(op); });
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const void* sources[] = {result.data(), inputs[(first + i) % inputs.size()].data()};
    void* targets[] = {result.data()};
    reduce({.sources = sources,
            .source_count = 2,
            .targets = targets,
            .target_count = 1,
            .count = kCount,
            .rank_count = static_cast<int>(inputs.size()),
            .finish = i + 1 == inputs.size(),
            .streamed = 0});
  }
  return result;
}

TEST(CheckedValues, AcceptEveryOrderOfAnyBits) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (int round = 0; round < 20; ++round)
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kRedOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<RedOp>(o);
        if (!supported(type, op)) continue;
        const Inputs inputs = random_inputs(type, 2 + round % 7, random);
        const auto got = in_ring_order(type, op, inputs, random() % inputs.size());
        const auto found = Checked{type, op, inputs, {}}.find(Exactness::kWithinRounding, got);
        ASSERT_FALSE(found.has_value())
            << name(type) << " " << name(op) << " of " << inputs.size() << ": "
            << element_text(type, found->got) << " for " << element_text(type, found->want);
      }
}

TEST(CheckedValues, FindEveryFlippedBitInTreeOrder) {
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    Inputs inputs(2);  // the second adds nothing
    inputs[0].assign(kCount * size_of(type), std::byte{0x21});
    inputs[1].assign(kCount * size_of(type), std::byte{0});
    for (std::size_t bit = 0; bit < 8 * size_of(type); ++bit) {
      std::vector<std::byte> got = inputs[0];
      const std::size_t at = random() % kCount;
      got[at * size_of(type) + bit / 8] ^= std::byte{1} << (bit % 8);
      Checked checked{type, RedOp::kSum, inputs, {}};
      const auto found = checked.find(Exactness::kTreeBits, got);
      ASSERT_TRUE(found.has_value()) << name(type) << " bit " << bit;
      EXPECT_EQ(found->at, at);
      EXPECT_EQ(found->number, 1u);
      EXPECT_EQ(found->got ^ found->want, std::uint64_t{1} << bit);
      EXPECT_TRUE(find_different_copy(type, inputs[0].data(), kCount, got.data()).has_value());
    }
  }
}

TEST(CheckedValues, FindWhatRoundingCannotExplain) {
  std::vector<float> ones(kCount, 1.0F), sums(kCount, 4.0F);
  const auto* bytes = reinterpret_cast<const std::byte*>(ones.data());
  const std::vector<const std::byte*> sources(4, bytes);
  const CheckedReduction expected{DataType::kFloat32, RedOp::kSum, sources, kCount,
                                  Exactness::kWithinRounding};
  std::vector<std::byte> scratch;
  const auto found = [&](float value) {
    sums[9] = value;
    return find_different(expected, reinterpret_cast<const std::byte*>(sums.data()), scratch)
        .has_value();
  };
  EXPECT_FALSE(found(4.0F));
  EXPECT_FALSE(found(std::nextafter(4.0F, 5.0F)));
  EXPECT_TRUE(found(4.001F));
  EXPECT_TRUE(found(-4.0F));
  EXPECT_TRUE(found(std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(found(std::numeric_limits<float>::quiet_NaN()));
}

TEST(CheckedValues, AreWrittenWithTheirBits) {
  EXPECT_EQ(element_text(DataType::kFloat32, 0x40600000), "3.5 (0x40600000)");
  EXPECT_EQ(element_text(DataType::kBfloat16, 0x3f80), "1 (0x3f80)");
  EXPECT_EQ(element_text(DataType::kFloat8e4m3, 0x08), "0.015625 (0x08)");
  EXPECT_EQ(element_text(DataType::kInt8, 0xff), "-1");
  EXPECT_EQ(element_text(DataType::kUint64, ~std::uint64_t{0}), "18446744073709551615");
}

}  // namespace
}  // namespace rondo
