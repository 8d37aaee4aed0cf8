// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/function_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

namespace rondo {
namespace {

constexpr std::string_view kFunctions[kListedFunctions] = {"allreduce", "broadcast", "reduce",
                                                           "allgather", "reducescatter"};

std::string plain(std::string_view text) {
  std::string copy;
  for (const unsigned char c : text)
    if (std::isspace(c) == 0) copy += static_cast<char>(std::tolower(c));
  return copy;
}

std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> all;
  while (true) {
    const std::size_t end = text.find(separator);
    if (const auto piece = text.substr(0, end); !piece.empty()) all.push_back(piece);
    if (end == std::string_view::npos) return all;
    text.remove_prefix(end + 1);
  }
}

template <class Names>
int index_in(const Names& names, std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  return found == std::end(names) ? -1 : static_cast<int>(found - std::begin(names));
}

// The set that "[^]name,name" allows.
Result<std::uint16_t> parse_list(std::string_view list, std::string_view whole,
                                 std::string_view source, const Vocabulary& words) {
  const bool excludes = !list.empty() && list.front() == '^';
  if (excludes) list.remove_prefix(1);
  std::uint16_t named = 0;
  for (const std::string_view word : pieces(list, ',')) {
    const int index = index_in(words.names, word);
    if (index >= 0) {
      named = static_cast<std::uint16_t>(named | 1u << index);
    } else if (index_in(words.foreign, word) < 0) {
      const bool vowel = std::string_view("aeiou").find(words.noun.front()) != std::string::npos;
      return fail(StatusCode::kInvalidUsage, "{}='{}': '{}' is not a{} {}; Rondo has {}", source,
                  whole, word, vowel ? "n" : "", words.noun, fmt::join(words.names, ", "));
    }
  }
  if (excludes) return static_cast<std::uint16_t>(words.usual & ~named);
  return static_cast<std::uint16_t>((named & ~words.wishes) == 0 ? named | words.usual : named);
}

}  // namespace

Result<FunctionSets> parse_function_lists(std::string_view text, std::string_view source,
                                          const Vocabulary& words) {
  FunctionSets sets;
  sets.fill(words.usual);
  std::array<bool, kListedFunctions> own_list{};
  std::optional<std::uint16_t> common;
  const std::string all = plain(text);
  for (const std::string_view part : pieces(all, ';')) {
    const std::size_t colon = part.find(':');
    const bool names_function = colon != std::string_view::npos;
    const std::string_view list = names_function ? part.substr(colon + 1) : part;
    RONDO_TRY(const std::uint16_t allowed, parse_list(list, text, source, words));
    if (!names_function) {
      common = allowed;
      continue;
    }
    const int function = index_in(kFunctions, part.substr(0, colon));
    if (function < 0)
      return fail(StatusCode::kInvalidUsage,
                  "{}='{}': '{}' is not a function with a choice of {}s; these are {}", source,
                  text, part.substr(0, colon), words.noun, fmt::join(kFunctions, ", "));
    sets[static_cast<std::size_t>(function)] = allowed;
    own_list[static_cast<std::size_t>(function)] = true;
  }
  for (std::size_t i = 0; common && i < own_list.size(); ++i)
    if (!own_list[i]) sets[i] = *common;
  return sets;
}

}  // namespace rondo
