// SPDX-License-Identifier: Apache-2.0
#include "bench/element_types.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/env.h"

namespace rondo::bench {
namespace {

constexpr TypeInfo kTypes[] = {
    {ncclInt8, "int8", "i8", 1, false, true, 0, 0, 0, false},
    {ncclUint8, "uint8", "u8", 1, false, false, 0, 0, 0, false},
    {ncclInt32, "int32", "i32", 4, false, true, 0, 0, 0, false},
    {ncclUint32, "uint32", "u32", 4, false, false, 0, 0, 0, false},
    {ncclInt64, "int64", "i64", 8, false, true, 0, 0, 0, false},
    {ncclUint64, "uint64", "u64", 8, false, false, 0, 0, 0, false},
    {ncclFloat16, "half", "float16", 2, true, true, 11, -14, 15, true},
    {ncclFloat32, "float", "float32", 4, true, true, 24, -126, 127, true},
    {ncclFloat64, "double", "float64", 8, true, true, 53, -1022, 1023, true},
    {ncclBfloat16, "bfloat16", "bf16", 2, true, true, 8, -126, 127, true},
    {ncclFloat8e4m3, "f8e4m3", "float8e4m3", 1, true, true, 4, -6, 8, false},
    {ncclFloat8e5m2, "f8e5m2", "float8e5m2", 1, true, true, 3, -14, 15, true},
    {rondoInt16, "int16", "i16", 2, false, true, 0, 0, 0, false},
    {rondoUint16, "uint16", "u16", 2, false, false, 0, 0, 0, false},
};

struct OpRow {
  Op op;
  std::string_view name;
  ncclRedOp_t handle;
  bool of_floats = true;
};
constexpr OpRow kOps[] = {
    {Op::kSum, "sum", ncclSum},
    {Op::kProd, "prod", ncclProd},
    {Op::kMin, "min", ncclMin},
    {Op::kMax, "max", ncclMax},
    {Op::kAvg, "avg", ncclAvg},
    {Op::kMulSum, "mulsum", ncclSum},
    {Op::kBand, "band", rondoBand, false},
    {Op::kBor, "bor", rondoBor, false},
    {Op::kBxor, "bxor", rondoBxor, false},
    {Op::kNone, "none", ncclSum},
};
constexpr Op kEveryType[] = {Op::kSum, Op::kProd, Op::kMin, Op::kMax, Op::kAvg, Op::kMulSum};

}  // namespace

std::span<const TypeInfo> all_types() { return kTypes; }

const TypeInfo& info(ncclDataType_t type) {
  for (const TypeInfo& row : kTypes)
    if (row.type == type) return row;
  return kTypes[0];
}

std::optional<ncclDataType_t> type_by_name(std::string_view name) {
  for (const TypeInfo& row : kTypes)
    if (row.name == name || row.alias == name) return row.type;
  return std::nullopt;
}

std::vector<std::string> names_of_types() {
  std::vector<std::string> names;
  for (const TypeInfo& row : kTypes) names.emplace_back(row.name);
  return names;
}

std::span<const Op> all_ops() { return kEveryType; }

std::string_view name(Op op) {
  for (const OpRow& row : kOps)
    if (row.op == op) return row.name;
  return "none";
}

std::optional<Op> op_by_name(std::string_view name) {
  for (const OpRow& row : kOps)
    if (row.name == name && row.op != Op::kNone) return row.op;
  return std::nullopt;
}

std::vector<std::string> names_of_ops() {
  std::vector<std::string> names;
  for (const OpRow& row : kOps)
    if (row.op != Op::kNone) names.emplace_back(row.name);
  return names;
}

bool supported(Op op, ncclDataType_t type) {
  for (const OpRow& row : kOps)
    if (row.op == op) return row.of_floats || !info(type).is_float;
  return false;
}

ncclRedOp_t handle(Op op) {
  for (const OpRow& row : kOps)
    if (row.op == op) return row.handle;
  return ncclSum;
}

std::optional<std::size_t> parse_size(std::string_view text) {
  const auto bytes = env::parse_bytes(text);
  if (!bytes || *bytes < 0) return std::nullopt;
  return static_cast<std::size_t>(*bytes);
}

namespace {

struct FloatFormat {
  int mantissa_bits;  // stored
  int bias;
  std::uint64_t exponent_mask;
  std::uint64_t sign;
  std::uint64_t largest;  // bits of the largest value
};

FloatFormat float_format_of(const TypeInfo& type) {
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
  const FloatFormat format = float_format_of(type);
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
  const FloatFormat format = float_format_of(type);
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
