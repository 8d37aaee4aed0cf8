// Element types and reductions by the names that nccl-tests uses, and what checking needs to know.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "api/rondo.h"

namespace rondo::bench {

struct TypeInfo {
  ncclDataType_t type;
  std::string_view name;   // "float", as tables print it
  std::string_view alias;  // "float32", also accepted
  std::size_t size;        // bytes
  bool is_float;
  bool is_signed;
  // Floats: bits of the significand with the hidden one, and exponents of the smallest normal and
  // the largest value (value = significand in [1, 2) * 2^exponent).
  int significand_bits;
  int smallest_exponent;
  int largest_exponent;
  bool has_infinity;
};

std::span<const TypeInfo> all_types();
const TypeInfo& info(ncclDataType_t type);
std::optional<ncclDataType_t> type_by_name(std::string_view name);

// Reductions by kind. kMulSum needs a communicator's own handle.
enum class Op { kNone, kSum, kProd, kMin, kMax, kAvg, kMulSum, kBand, kBor, kBxor };

std::span<const Op> all_ops();  // what `-o all` means: all that every type has
std::string_view name(Op op);   // "none", "sum", ..., "mulsum"
std::optional<Op> op_by_name(std::string_view name);
bool supported(Op op, ncclDataType_t type);
ncclRedOp_t handle(Op op);  // not for kNone and kMulSum

// "4M", "1.5k", "123": bytes; fractions as long as the result is a whole number.
std::optional<std::size_t> parse_size(std::string_view text);

}  // namespace rondo::bench
