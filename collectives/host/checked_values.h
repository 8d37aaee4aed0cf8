// SPDX-License-Identifier: Apache-2.0
// Computes a reduction of a few elements again, in plain C++ on this thread, and compares.
//
// Guarantees: a correct result is never called different, whatever the inputs are: NaN, infinities,
// overflow in another order of the sum, flushed subnormals. In tree order (kernels/reduce.h) every
// other bit counts; in another order a float may differ by the rounding errors of its type and of
// the number of sources. Cost: some nanoseconds per element and source; the scratch is the
// caller's.
//
//   const auto wrong = find_different({type, op, sources, count, Exactness::kTreeBits}, got,
//   scratch);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace rondo {

// kTreeBits: the sum has the tree's order and was rounded to the type once.
enum class Exactness { kTreeBits, kWithinRounding };

struct CheckedReduction {
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;                     // kPreMulSum: the sources are scaled already
  std::span<const std::byte* const> sources;  // one per rank, in rank order
  std::size_t count = 0;                      // elements of each
  Exactness exactness = Exactness::kTreeBits;
};

struct DifferentElement {
  std::size_t at = 0;
  std::size_t number = 0;           // of elements that differ, this one included
  std::uint64_t got = 0, want = 0;  // bits, in the low bytes
};

// The first element of `got` that no correct reduction gives. scratch: any memory, resized.
std::optional<DifferentElement> find_different(const CheckedReduction& expected,
                                               const std::byte* got,
                                               std::vector<std::byte>& scratch);
// The same for copies: every bit counts.
std::optional<DifferentElement> find_different_copy(DataType type, const std::byte* want,
                                                    std::size_t count, const std::byte* got);

// "3.5 (0x40600000)"; integers: "7".
std::string element_text(DataType type, std::uint64_t bits);

}  // namespace rondo
