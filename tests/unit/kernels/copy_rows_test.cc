// SPDX-License-Identifier: Apache-2.0
// Small copies as copies of rows: every byte is written, no copy is of one row or of many.
#include "kernels/cuda/copy_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rondo::cuda {
namespace {

TEST(CopyRows, WriteEveryByteByFewRows) {
  int twice = 0;
  for (std::size_t bytes = 0; bytes < 3000; ++bytes) {
    if (!goes_by_rows(bytes)) continue;
    std::vector<bool> written(bytes);
    const RowCopies copies = rows_of(bytes);
    ASSERT_GT(copies.first.rows, 0u);
    for (const RowCopy& copy : {copies.first, copies.second}) {
      if (copy.rows == 0) continue;
      ASSERT_GE(copy.rows, 2u) << bytes;
      ASSERT_LE(copy.rows, kMaxRows) << bytes;
      ASSERT_LE(copy.at + copy.rows * copy.width, bytes);
      std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(copy.at), copy.rows * copy.width,
                  true);
    }
    ASSERT_TRUE(std::all_of(written.begin(), written.end(), [](bool one) { return one; })) << bytes;
    twice += copies.second.rows > 0;
  }
  EXPECT_EQ(twice, 295);  // the primes from 47 to 2,039
}

TEST(CopyRows, AreForFewBytesAlone) {
  EXPECT_FALSE(goes_by_rows(1));
  EXPECT_TRUE(goes_by_rows(2));
  EXPECT_TRUE(goes_by_rows(2047));
  EXPECT_FALSE(goes_by_rows(2048));
}

}  // namespace
}  // namespace rondo::cuda
