// NCCL's grammar for what may run which collective: NCCL_ALGO, NCCL_PROTO, algSelection.
//
// Lists separated by ';', each "[^]name,name" or "function:[^]name,name"; ^ leaves the names out; a
// list without a function stands for all functions that have no list of their own; a function that
// no list speaks of keeps everything. Case and blanks do not matter; "" allows all.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace rondo {

inline constexpr int kListedFunctions = 5;  // kAllReduce to kReduceScatter have a choice

// Of each of these, which choices are allowed: bit i stands for name i of the vocabulary.
using FunctionSets = std::array<std::uint8_t, kListedFunctions>;

struct Vocabulary {
  std::string_view noun;                      // "algorithm"
  std::span<const std::string_view> names;    // Rondo's, in lower case
  std::span<const std::string_view> foreign;  // NCCL's that Rondo does not have: neither select nor
                                              // exclude anything; a list of these alone allows all
  constexpr std::uint8_t all() const { return static_cast<std::uint8_t>((1u << names.size()) - 1); }
};

// Fails with kInvalidUsage on any other name; `source` (say, "NCCL_ALGO") begins the text.
Result<FunctionSets> parse_function_lists(std::string_view text, std::string_view source,
                                          const Vocabulary& words);

// The set of a collective; `otherwise` where it has no choice.
constexpr std::uint8_t set_of(const FunctionSets& sets, Collective collective,
                              std::uint8_t otherwise) {
  const int index = static_cast<int>(collective) - 1;
  return index >= 0 && index < kListedFunctions ? sets[static_cast<std::size_t>(index)] : otherwise;
}

}  // namespace rondo
