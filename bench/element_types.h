// SPDX-License-Identifier: Apache-2.0
// Element types and reductions: their names in nccl-tests, and the facts that checks need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/rondo.h"

namespace rondo::bench {

struct TypeInfo {
  ncclDataType_t type;
  std::string_view name;   // "float", as tables print it
  std::string_view alias;  // "float32", also accepted
  std::size_t size;        // bytes
  bool is_float;
  bool is_signed;
  // Floats only: bits of the significand with the hidden one; exponents of the smallest normal and
  // of the largest value (value = significand in [1, 2) * 2^exponent).
  int significand_bits;
  int smallest_exponent;
  int largest_exponent;
  bool has_infinity;
};

std::span<const TypeInfo> all_types();
const TypeInfo& info(ncclDataType_t type);
std::optional<ncclDataType_t> type_by_name(std::string_view name);
std::vector<std::string> names_of_types();

// kMulSum needs a handle made for the communicator.
enum class Op { kNone, kSum, kProd, kMin, kMax, kAvg, kMulSum, kBand, kBor, kBxor };

std::span<const Op> all_ops();  // for `-o all`: those that every type supports
std::string_view name(Op op);   // "none", "sum", ..., "mulsum"
std::optional<Op> op_by_name(std::string_view name);
std::vector<std::string> names_of_ops();  // without "none"
bool supported(Op op, ncclDataType_t type);
ncclRedOp_t handle(Op op);  // not for kNone and kMulSum

// "4M", "1.5k", "123": bytes. Fractions are allowed if the result is a whole number.
std::optional<std::size_t> parse_size(std::string_view text);

// Conversions between any float type and double, for the judge (reference.h). They use arithmetic
// on values, not on bits, so that they share nothing with the library under test.
// The value of the low bits of `bits`; may be NaN.
double decode(const TypeInfo& type, std::uint64_t bits);

// The bits of the value nearest to x, ties to even. Beyond the largest value: infinity, or the
// largest value if the type has no infinity. NaN gives a NaN.
std::uint64_t encode(const TypeInfo& type, double x);

}  // namespace rondo::bench
