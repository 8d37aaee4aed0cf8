// SPDX-License-Identifier: Apache-2.0
#include "bench/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "bench/element_types.h"

namespace rondo::bench {
namespace {

constexpr std::size_t kBlock = 1024;

// ---- Integers, and data that is only moved: any bits -------------------------------------------

template <class T>
T integer_at(std::uint32_t key, std::size_t index, Values values) {
  const std::uint32_t hash = hash_at(key, index);
  if (values == Values::kSpecial && (hash & 0x10) != 0) {
    using Limits = std::numeric_limits<T>;
    const T edges[8] = {Limits::min(),
                        Limits::max(),
                        0,
                        1,
                        static_cast<T>(-1),
                        static_cast<T>(Limits::max() - 1),
                        static_cast<T>(Limits::min() + 1),
                        2};
    return edges[hash & 7];
  }
  if constexpr (sizeof(T) == 8)
    return static_cast<T>((static_cast<std::uint64_t>(mix(hash + 1)) << 32) | hash);
  else
    return static_cast<T>(hash);
}

template <class T>
T combine(Op op, T left, T right) {
  const auto a = static_cast<std::uint64_t>(left), b = static_cast<std::uint64_t>(right);
  switch (op) {
    case Op::kProd:
      return static_cast<T>(a * b);
    case Op::kMin:
      return std::min(left, right);
    case Op::kMax:
      return std::max(left, right);
    case Op::kBand:
      return static_cast<T>(a & b);
    case Op::kBor:
      return static_cast<T>(a | b);
    case Op::kBxor:
      return static_cast<T>(a ^ b);
    default:
      return static_cast<T>(a + b);
  }
}

template <class T>
void expect_integers(const Recipe& recipe, std::size_t first, std::size_t count, T* expected) {
  for (int rank = 0; rank < recipe.ranks; ++rank) {
    const std::uint32_t key = stream_key(recipe.seed, rank);
    for (std::size_t i = 0; i < count; ++i) {
      T x = integer_at<T>(key, first + i, recipe.values);
      if (recipe.op == Op::kMulSum)
        x = static_cast<T>(static_cast<std::uint64_t>(x) *
                           static_cast<unsigned>(mulsum_factor(rank)));
      expected[i] = rank == 0 ? x : combine(recipe.op, expected[i], x);
    }
  }
  if (recipe.op == Op::kAvg)
    for (std::size_t i = 0; i < count; ++i)
      expected[i] =
          static_cast<T>(std::is_signed_v<T> ? static_cast<std::int64_t>(expected[i]) / recipe.ranks
                                             : static_cast<std::uint64_t>(expected[i]) /
                                                   static_cast<unsigned>(recipe.ranks));
}

// ---- Floats with exact results in any order: whole numbers k -----------------------------------

struct ExactPlan {
  std::int64_t limit;    // the type can represent every |k| <= limit
  int contributors;      // ranks per index with a value; the others have 0 (sum) or 1 (product)
  std::uint32_t spread;  // a power of two: |k| <= spread
};

ExactPlan exact_plan(const Recipe& recipe) {
  const std::int64_t limit = 1ll << std::min(info(recipe.type).significand_bits, 40);
  const std::int64_t weight = recipe.op == Op::kMulSum ? 2 : 1;
  ExactPlan plan{limit, recipe.ranks, 1};
  if (recipe.op == Op::kProd) return plan.contributors = std::min(recipe.ranks, 4), plan;
  const bool selects = recipe.op == Op::kMin || recipe.op == Op::kMax;
  plan.contributors = selects
                          ? recipe.ranks
                          : static_cast<int>(std::min<std::int64_t>(recipe.ranks, limit / weight));
  const std::int64_t share = selects ? limit : limit / (weight * plan.contributors);
  while (plan.spread * 2 <= share && plan.spread < 1u << 30) plan.spread *= 2;
  return plan;
}

// Sum-like operations: k itself. Product: the exponent + 1 of a power of two, and the sign in
// bit 8.
template <bool product>
std::int64_t exact_at(const ExactPlan& plan, const Recipe& recipe, std::uint32_t key,
                      std::uint32_t shared, int rank, std::size_t index) {
  const std::uint32_t hash = hash_at(key, index);
  bool contributes = true;
  if (plan.contributors < recipe.ranks) {
    const auto n = static_cast<std::uint32_t>(recipe.ranks);
    const std::uint32_t turn = hash_at(shared, index) % n;
    contributes = (static_cast<std::uint32_t>(rank) + turn) % n <
                  static_cast<std::uint32_t>(plan.contributors);
  }
  if constexpr (product)
    return static_cast<std::int64_t>(contributes ? (hash >> 8) % 3 : 1) + (hash & 1) * 256;
  if (!contributes) return 0;
  return static_cast<std::int64_t>(hash & (2 * plan.spread - 1)) -
         static_cast<std::int64_t>(plan.spread);
}

double product_value(std::int64_t code) {
  return std::ldexp((code & 256) != 0 ? -1.0 : 1.0, static_cast<int>(code & 255) - 1);
}

// Converts whole numbers to elements of a floating-point type; narrow types use a table.
template <class T>
class Encoder {
 public:
  Encoder(const TypeInfo& type, std::int64_t limit) : limit_(limit) {
    if (std::is_floating_point_v<T> || !type.is_float) return;
    if constexpr (!std::is_floating_point_v<T>)
      for (std::int64_t k = -limit; k <= limit; ++k)
        table_.push_back(static_cast<T>(encode(type, static_cast<double>(k))));
  }
  T operator()(std::int64_t k) const {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(k);
    else
      return table_[static_cast<std::size_t>(k + limit_)];
  }

 private:
  std::int64_t limit_;
  std::vector<T> table_;
};

template <class T>
T element_of(const TypeInfo& type, double value) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value);
  else
    return static_cast<T>(encode(type, value));
}

template <class T>
void fill_exact(const Recipe& recipe, int rank, std::size_t first, std::size_t count, T* out) {
  const TypeInfo& type = info(recipe.type);
  const ExactPlan plan = exact_plan(recipe);
  const std::uint32_t key = stream_key(recipe.seed, rank);
  const std::uint32_t shared = stream_key(recipe.seed, kShared);
  if (recipe.op == Op::kProd) {
    for (std::size_t i = 0; i < count; ++i)
      out[i] = element_of<T>(
          type, product_value(exact_at<true>(plan, recipe, key, shared, rank, first + i)));
    return;
  }
  const Encoder<T> to_element(type, plan.limit);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = to_element(exact_at<false>(plan, recipe, key, shared, rank, first + i));
}

template <class T>
void expect_exact(const Recipe& recipe, const Encoder<T>& to_element, std::size_t first,
                  std::size_t count, T* expected) {
  const TypeInfo& type = info(recipe.type);
  const ExactPlan plan = exact_plan(recipe);
  const std::uint32_t shared = stream_key(recipe.seed, kShared);
  std::int64_t sums[kBlock] = {};
  double products[kBlock];
  std::fill_n(products, kBlock, 1.0);
  for (int rank = 0; rank < recipe.ranks; ++rank) {
    const std::uint32_t key = stream_key(recipe.seed, rank);
    const std::int64_t weight = recipe.op == Op::kMulSum ? mulsum_factor(rank) : 1;
    if (recipe.op == Op::kProd) {
      for (std::size_t i = 0; i < count; ++i)
        products[i] *= product_value(exact_at<true>(plan, recipe, key, shared, rank, first + i));
    } else if (recipe.op == Op::kMin || recipe.op == Op::kMax) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t k = exact_at<false>(plan, recipe, key, shared, rank, first + i);
        sums[i] = rank == 0               ? k
                  : recipe.op == Op::kMin ? std::min(sums[i], k)
                                          : std::max(sums[i], k);
      }
    } else {
      for (std::size_t i = 0; i < count; ++i)
        sums[i] += weight * exact_at<false>(plan, recipe, key, shared, rank, first + i);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (recipe.op == Op::kProd)
      expected[i] = element_of<T>(type, products[i]);
    else if (recipe.op == Op::kAvg)
      expected[i] =
          element_of<T>(type, static_cast<double>(sums[i]) / static_cast<double>(recipe.ranks));
    else
      expected[i] = to_element(sums[i]);
  }
}

// ---- Comparing ---------------------------------------------------------------------------------

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// Float average: the values differ by at most two units in the last place.
bool close_enough(const TypeInfo& type, std::uint64_t got, std::uint64_t expected) {
  const double a = decode(type, got), b = decode(type, expected);
  const double unit = std::ldexp(
      1.0, std::max(b == 0 ? type.smallest_exponent : std::ilogb(b), type.smallest_exponent) -
               type.significand_bits + 1);
  return std::fabs(a - b) <= 2 * unit;
}

bool as_expected(const TypeInfo& type, const Expected& expected, std::uint64_t got_bits) {
  const double got = decode(type, got_bits);
  if (std::isnan(expected.value)) return std::isnan(got);
  if (expected.tolerance > 0) return std::fabs(got - expected.value) <= expected.tolerance;
  if (expected.value == 0 && got == 0)
    return expected.either_zero || std::signbit(got) == std::signbit(expected.value);
  return got == decode(type, encode(type, expected.value));
}

template <class T>
std::string text_of(const TypeInfo& type, T value) {
  if (type.is_float)
    return fmt::format("{:.9g} (0x{:x})", decode(type, bits_of(value)), bits_of(value));
  return fmt::format("{}", +value);
}

template <class T>
void note(std::string* example, const TypeInfo& type, std::size_t index, T got,
          const std::string& expected) {
  if (example != nullptr && example->empty())
    *example = fmt::format("element {} is {}, expected {}", index, text_of(type, got), expected);
}

constexpr bool by_double(const Recipe& recipe, bool is_float) {
  return is_float && recipe.op != Op::kNone && recipe.values != Values::kExact;
}

template <class T>
std::size_t wrong_by_double(const Recipe& recipe, std::size_t first, std::size_t count,
                            const T* got, std::string* example) {
  const TypeInfo& type = info(recipe.type);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Expected expected = float_expected(recipe, first + i);
    if (as_expected(type, expected, bits_of(got[i]))) continue;
    if (wrong++ == 0)
      note(example, type, i, got[i],
           fmt::format("{:.9g} +- {:.3g}", expected.value, expected.tolerance));
  }
  return wrong;
}

// T: storage of the type. Bits: the unsigned integer of its size.
template <class T, class Bits>
void fill_as(const Recipe& recipe, int rank, std::size_t first, std::size_t count, void* out) {
  const TypeInfo& type = info(recipe.type);
  if (recipe.op != Op::kNone && type.is_float) {
    T* elements = static_cast<T*>(out);
    if (recipe.values == Values::kExact) return fill_exact(recipe, rank, first, count, elements);
    for (std::size_t i = 0; i < count; ++i)
      elements[i] = element_of<T>(type, float_input(recipe, rank, first + i));
    return;
  }
  const std::uint32_t key = stream_key(recipe.seed, rank);
  using Integer = std::conditional_t<std::is_integral_v<T>, T, Bits>;
  Integer* elements = static_cast<Integer*>(out);
  for (std::size_t i = 0; i < count; ++i)
    elements[i] = integer_at<Integer>(key, first + i, recipe.values);
}

template <class T, class Bits>
std::size_t wrong_as(const Recipe& recipe, int source, std::size_t first, std::size_t count,
                     const void* got_bytes, std::string* example) {
  const TypeInfo& type = info(recipe.type);
  const T* got = static_cast<const T*>(got_bytes);
  const bool reduced = source < 0;
  if (reduced && by_double(recipe, type.is_float) && recipe.ranks > 1)
    return wrong_by_double(recipe, first, count, got, example);
  const Encoder<T> to_element(type, type.is_float && reduced ? exact_plan(recipe).limit : 0);
  std::size_t wrong = 0;
  T expected[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min(kBlock, count - start);
    if (!reduced || recipe.ranks == 1) {  // a reduction of one rank is a copy
      fill_as<T, Bits>(recipe, reduced ? 0 : source, first + start, length, expected);
    } else if constexpr (std::is_floating_point_v<T>) {
      expect_exact(recipe, to_element, first + start, length, expected);
    } else if (type.is_float) {
      expect_exact(recipe, to_element, first + start, length, expected);
    } else {
      expect_integers(recipe, first + start, length, expected);
    }
    if (std::memcmp(expected, got + start, length * sizeof(T)) == 0) continue;
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint64_t a = bits_of(got[start + i]), b = bits_of(expected[i]);
      if (a == b) continue;
      if (reduced && type.is_float && recipe.op == Op::kAvg && close_enough(type, a, b)) continue;
      if (wrong++ == 0) note(example, type, start + i, got[start + i], text_of(type, expected[i]));
    }
  }
  return wrong;
}

template <class Call>
auto by_storage(ncclDataType_t type, Call call) {
  using std::uint16_t, std::uint8_t, std::uint32_t, std::uint64_t;
  switch (static_cast<int>(type)) {
    case ncclInt8:
      return call(std::int8_t{}, uint8_t{});
    case ncclInt32:
      return call(std::int32_t{}, uint32_t{});
    case ncclUint32:
      return call(uint32_t{}, uint32_t{});
    case ncclInt64:
      return call(std::int64_t{}, uint64_t{});
    case ncclUint64:
      return call(uint64_t{}, uint64_t{});
    case ncclFloat32:
      return call(float{}, uint32_t{});
    case ncclFloat64:
      return call(double{}, uint64_t{});
    case ncclFloat16:
    case ncclBfloat16:
    case rondoUint16:
      return call(uint16_t{}, uint16_t{});
    case rondoInt16:
      return call(std::int16_t{}, uint16_t{});
    default:  // uint8 and the 8-bit floats
      return call(uint8_t{}, uint8_t{});
  }
}

}  // namespace

void fill(const Recipe& recipe, int rank, std::size_t first, std::size_t count, void* out) {
  by_storage(recipe.type, [&](auto storage, auto bits) {
    fill_as<decltype(storage), decltype(bits)>(recipe, rank, first, count, out);
  });
}

std::size_t count_wrong(const Recipe& recipe, int source, std::size_t first, std::size_t count,
                        const void* got, std::string* example) {
  return by_storage(recipe.type, [&](auto storage, auto bits) {
    return wrong_as<decltype(storage), decltype(bits)>(recipe, source, first, count, got, example);
  });
}

}  // namespace rondo::bench
