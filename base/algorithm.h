// SPDX-License-Identifier: Apache-2.0
// The list of algorithms: every text, option and test that names them is made from it. The table
// of which collective each runs, and how: kernels/algorithms/table.h.
//
//   name(Algorithm::kRing)   "ring", as in NCCL_ALGO
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace rondo {

// FIRST(value, name) NEXT(value, name)...; the name as users write it, at most kMaxAlgorithmName
// letters. The values are in traces and records: a new one goes to the end. kNvls (multicast memory
// of GPUs) is a kernel of its own, without a row in the table.
#define RONDO_ALGORITHMS(FIRST, NEXT) \
  FIRST(kOneShot, "oneshot")          \
  NEXT(kTwoShot, "twoshot")           \
  NEXT(kDirect, "direct")             \
  NEXT(kRing, "ring")                 \
  NEXT(kTree, "tree")                 \
  NEXT(kRecursive, "recursive")       \
  NEXT(kHierarchical, "hierarchical") \
  NEXT(kNvls, "nvls")

#define RONDO_VALUE(value, name) value,
enum class Algorithm : std::uint8_t { RONDO_ALGORITHMS(RONDO_VALUE, RONDO_VALUE) };
#undef RONDO_VALUE

#define RONDO_NAME(value, name) name,
inline constexpr std::string_view kAlgorithmNames[] = {RONDO_ALGORITHMS(RONDO_NAME, RONDO_NAME)};
#undef RONDO_NAME

inline constexpr int kAlgorithmCount = static_cast<int>(std::size(kAlgorithmNames));
inline constexpr std::size_t kMaxAlgorithmName = 12;  // columns of tables

consteval bool algorithm_names_fit() {
  for (const std::string_view name : kAlgorithmNames)
    if (name.empty() || name.size() > kMaxAlgorithmName) return false;
  return true;
}
static_assert(algorithm_names_fit(), "tables have columns for names of up to 12 letters");

constexpr std::string_view name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<int>(algorithm)];
}

// "oneshot,twoshot,...", a literal, for texts that are made of literals.
#define RONDO_FIRST_NAME(value, name) name
#define RONDO_NEXT_NAME(value, name) "," name
#define RONDO_ALGORITHM_LIST RONDO_ALGORITHMS(RONDO_FIRST_NAME, RONDO_NEXT_NAME)

}  // namespace rondo
