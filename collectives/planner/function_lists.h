// SPDX-License-Identifier: Apache-2.0
// NCCL's grammar to allow or exclude choices for collectives: NCCL_ALGO, NCCL_PROTO, algSelection.
//
// Lists are separated by ';'. Each is "[^]name,name" or "function:[^]name,name"; ^ excludes the
// names. A list without a function applies to all functions without a list of their own; a function
// without any list keeps the usual choices. Case and blanks do not matter; "" allows the usual
// choices.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace rondo {

inline constexpr int kListedFunctions = 5;  // kAllReduce to kReduceScatter have a choice

// Allowed choices of each of these functions: bit i is name i of the vocabulary.
using FunctionSets = std::array<std::uint16_t, kListedFunctions>;

struct Vocabulary {
  std::string_view noun;                    // "algorithm"
  std::span<const std::string_view> names;  // Rondo's names, in lower case
  // NCCL's names that Rondo does not have: they select and exclude nothing.
  std::span<const std::string_view> foreign;
  std::uint16_t usual;       // allowed unless excluded; the others must be named
  std::uint16_t wishes = 0;  // names that serve only some calls: a list of only these, or of only
                             // foreign names, also allows the usual ones
};

// Fails with kInvalidUsage on any other name; the error text begins with `source`.
Result<FunctionSets> parse_function_lists(std::string_view text, std::string_view source,
                                          const Vocabulary& words);

// The set of a collective; `otherwise` if it has no choice.
constexpr std::uint16_t set_of(const FunctionSets& sets, Collective collective,
                               std::uint16_t otherwise) {
  const int index = static_cast<int>(collective) - 1;
  return index >= 0 && index < kListedFunctions ? sets[static_cast<std::size_t>(index)] : otherwise;
}

}  // namespace rondo
