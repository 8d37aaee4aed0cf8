// NCCL's grammar for what may run which collective: NCCL_ALGO, NCCL_PROTO, algSelection.
//
// Lists separated by ';', each "[^]name,name" or "function:[^]name,name"; ^ leaves the names out; a
// list without a function stands for all functions that have no list of their own; a function that
// no list speaks of keeps what is usual. Case and blanks do not matter; "" allows what is usual.
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
  std::string_view noun;                    // "algorithm"
  std::span<const std::string_view> names;  // Rondo's, in lower case
  // NCCL's that Rondo does not have: neither select nor exclude anything.
  std::span<const std::string_view> foreign;
  std::uint8_t usual;       // what is allowed unless it is left out; the others must be named
  std::uint8_t wishes = 0;  // names that serve some calls only: a list that names nothing but these
                            // allows the usual ones, too; so does a list of foreign names
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
