// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/checked_values.h"

#include <fmt/format.h>

#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/host/simd/reduce_portable.h"

namespace rondo {
namespace {

using Wide = long double;  // no type's sums overflow it

// What rounding to the type does.
struct Precision {
  Wide spacing;   // between 1 and the next value
  Wide step;      // smallest subnormal
  Wide smallest;  // normal value in which sums are accumulated
  Wide largest;
};

Precision precision_of(DataType type) {
  const auto power = [](int exponent) { return std::ldexp(Wide{1}, exponent); };
  switch (type) {
    case DataType::kFloat64:
      return {power(-52), power(-1074), power(-1022), DBL_MAX};
    case DataType::kFloat16:
      return {power(-10), power(-24), FLT_MIN, 65504};
    case DataType::kBfloat16:
      return {power(-7), power(-133), FLT_MIN, 255 * power(120)};
    case DataType::kFloat8e4m3:
      return {power(-3), power(-9), FLT_MIN, 448};
    case DataType::kFloat8e5m2:
      return {power(-2), power(-16), FLT_MIN, 57344};
    default:
      return {power(-23), power(-149), FLT_MIN, FLT_MAX};
  }
}

std::uint64_t bits_at(const std::byte* from, std::size_t index, std::size_t element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from + index * element, element);
  return bits;
}

Wide value_of(DataType type, std::uint64_t bits) {
  return host::portable::with_type(type, [&]<DataType t>() -> Wide {
    using E = Element<t>;
    return static_cast<Wide>(E::to_acc(host::portable::load<typename E::Storage>(&bits, 0)));
  });
}

// True if the program has told this thread's processor to flush subnormal floats. Ranks and helper
// threads may then differ in them.
bool flushes_subnormals() {
  volatile float tiny = FLT_MIN;
  tiny = tiny / 2;
  return tiny == 0.0F;
}

// Sums of magnitudes, and products without the factors on one side of 1: limits of what the partial
// results of any order can reach.
struct Limits {
  bool has_nan = false, has_infinity = false;
  Wide sum = 0, product = 1, above = 1, below = 1;

  Limits(const CheckedReduction& expected, std::size_t index) {
    for (const std::byte* source : expected.sources) {
      const Wide value =
          std::fabs(value_of(expected.type, bits_at(source, index, size_of(expected.type))));
      has_nan |= std::isnan(value);
      has_infinity |= std::isinf(value);
      sum += value;
      product *= value;
      if (value > 1) above *= value;
      if (value < 1 && value > 0) below *= value;
    }
  }
};

// Whether `got` may be the result of some order of the reduction whose result in tree order is
// `want`. Their bits differ.
bool may_be_equal(const CheckedReduction& expected, std::size_t index, std::uint64_t got_bits,
                  std::uint64_t want_bits, bool flushes) {
  if (!is_float(expected.type)) return false;  // exact in every order
  const Wide got = value_of(expected.type, got_bits), want = value_of(expected.type, want_bits);
  if (std::isnan(want) && std::isnan(got)) return true;
  const Precision precision = precision_of(expected.type);
  const auto sources = static_cast<Wide>(expected.sources.size());
  const Wide flushed = flushes ? sources * precision.smallest : 0;
  const bool in_tree_order = expected.exactness == Exactness::kTreeBits;
  if (in_tree_order && !flushes) return false;
  if (expected.op == RedOp::kMax || expected.op == RedOp::kMin)
    return in_tree_order ? std::fabs(got - want) <= flushed : got == want;  // -0 and +0
  const Limits limits(expected, index);
  if (limits.has_nan) return std::isnan(got);
  if (limits.has_infinity) return true;  // opposite infinities may meet, or be saturated before
  const Wide roundings = (sources + 1) * precision.spacing;
  if (expected.op != RedOp::kProd) {
    if (limits.sum * (1 + roundings) > precision.largest) return true;  // overflow of a part
    return std::fabs(got - want) <= roundings * limits.sum + sources * precision.step + flushed;
  }
  if (limits.above * (1 + roundings) > precision.largest) return true;
  if (limits.below < precision.step / precision.spacing) return true;  // underflow of a part
  return std::fabs(got - want) <= roundings * limits.product + precision.step;
}

}  // namespace

std::optional<DifferentElement> find_different(const CheckedReduction& expected,
                                               const std::byte* got,
                                               std::vector<std::byte>& scratch) {
  const std::size_t element = size_of(expected.type);
  assert(!expected.sources.empty() && supported(expected.type, expected.op));
  scratch.resize(expected.count * element);
  std::vector<const void*> sources(expected.sources.begin(), expected.sources.end());
  void* const target = scratch.data();
  const host::ReduceFn again = host::portable::with_type(
      expected.type, [&]<DataType type>() { return host::portable::function<type>(expected.op); });
  const auto ranks = static_cast<int>(sources.size());
  again({.sources = sources.data(),
         .source_count = ranks,
         .targets = &target,
         .target_count = 1,
         .count = expected.count,
         .rank_count = ranks,
         .finish = true,
         .streamed = 0});
  if (std::memcmp(scratch.data(), got, scratch.size()) == 0) return std::nullopt;
  const bool flushes = flushes_subnormals();
  std::optional<DifferentElement> first;
  for (std::size_t i = 0; i < expected.count; ++i) {
    const std::uint64_t mine = bits_at(got, i, element), want = bits_at(scratch.data(), i, element);
    if (mine == want || may_be_equal(expected, i, mine, want, flushes)) continue;
    if (!first) first = DifferentElement{i, 0, mine, want};
    ++first->number;
  }
  return first;
}

std::optional<DifferentElement> find_different_copy(DataType type, const std::byte* want,
                                                    std::size_t count, const std::byte* got) {
  const std::size_t element = size_of(type);
  if (std::memcmp(want, got, count * element) == 0) return std::nullopt;
  std::optional<DifferentElement> first;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t mine = bits_at(got, i, element), theirs = bits_at(want, i, element);
    if (mine == theirs) continue;
    if (!first) first = DifferentElement{i, 0, mine, theirs};
    ++first->number;
  }
  return first;
}

std::string element_text(DataType type, std::uint64_t bits) {
  std::string value = host::portable::with_type(type, [&]<DataType t>() {
    using E = Element<t>;
    const auto wide = E::to_acc(host::portable::load<typename E::Storage>(&bits, 0));
    if constexpr (std::is_integral_v<decltype(wide)>) return fmt::format("{}", +wide);
    return fmt::format("{}", wide);
  });
  if (!is_float(type)) return value;
  return fmt::format("{} ({:#0{}x})", value, bits, 2 + 2 * size_of(type));
}

}  // namespace rondo
