#include "collectives/algorithm_filter.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "kernels/algorithms/table.h"

namespace rondo {
namespace {

constexpr int kAlgorithmCount = 6;
constexpr std::string_view kNcclOnly[] = {"collnetdirect", "collnetchain", "nvls", "nvlstree",
                                          "pat"};

std::string lower(std::string_view text) {
  std::string copy(text);
  std::transform(copy.begin(), copy.end(), copy.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return copy;
}

}  // namespace

Result<std::uint32_t> parse_algorithms(std::string_view text) {
  if (text.empty()) return ~0u;
  std::uint32_t chosen = 0;
  bool excludes = false, known_only = true;
  std::string word;
  const std::string all = lower(text) + ",";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char c = all[i];
    if (c == '^') {
      excludes = true;
    } else if (c == ':') {
      word.clear();  // a collective's name before its list
    } else if (c == ',' || c == ';') {
      if (word.empty()) continue;
      int found = -1;
      for (int a = 0; a < kAlgorithmCount; ++a)
        if (name(static_cast<Algorithm>(a)) == word) found = a;
      if (found >= 0) {
        chosen |= 1u << found;
      } else if (std::find(std::begin(kNcclOnly), std::end(kNcclOnly), word) !=
                 std::end(kNcclOnly)) {
        known_only = false;
      } else {
        return fail(Status::kInvalidUsage,
                    "NCCL_ALGO='{}': '{}' is not an algorithm; Rondo has oneshot, twoshot, direct, "
                    "ring, tree, recursive",
                    text, word);
      }
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  if (excludes) return ~chosen;
  if (chosen == 0 && !known_only) return ~0u;
  return chosen;
}

}  // namespace rondo
