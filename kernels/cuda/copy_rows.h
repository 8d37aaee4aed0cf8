// SPDX-License-Identifier: Apache-2.0
// How a small copy from pinned host memory becomes copies of rows, which no compute engine makes.
//
// The driver gives copies of less than 2 KiB from the host to the compute engine, which first
// switches to this process if other processes use the device. A copy of several rows goes to a copy
// engine: for 4 bytes 8 us on one H200, 144 without rows
// (bench/results/h200/handoff_copies.json:
// handoff_copies.between_2_from_the_host_of_rows_of_4_bytes;
// handoff_copies.between_2_from_the_host_of_4_bytes). Rows cost time: 1,024 rows took 38 us there.
//
// Guarantees: one or two copies of at least 2 and at most kMaxRows rows write every byte, and
// nothing else. The second one writes a byte again that the first one has written.
#pragma once

#include <cstddef>

namespace rondo::cuda {

constexpr bool goes_by_rows(std::size_t bytes) { return bytes > 1 && bytes < 2048; }

// Composite numbers below 2,048 have a divisor up to this one; only primes take two copies.
inline constexpr std::size_t kMaxRows = 45;

struct RowCopy {
  std::size_t at = 0, width = 0, rows = 0;  // bytes from `at` on: `rows` rows of `width` each
};
struct RowCopies {
  RowCopy first, second;  // second: no rows if one copy is enough
};

constexpr RowCopies rows_of(std::size_t bytes) {
  for (std::size_t rows = 2; rows <= kMaxRows; ++rows)
    if (bytes % rows == 0) return {{0, bytes / rows, rows}, {}};
  return {{0, bytes / 2, 2}, {bytes - 2, 1, 2}};
}

}  // namespace rondo::cuda
