// SPDX-License-Identifier: Apache-2.0
#include "multiply.h"

// Compiled twice if the compiler supports a choice at load time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRAIN_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define TRAIN_CLONES
#endif
#define TRAIN_INLINE inline __attribute__((always_inline))

namespace train {
namespace {

constexpr int kWidth = 8;          // floats per vector
constexpr int kTile = 2 * kWidth;  // columns that are summed in registers
constexpr int kRows = 4;           // rows per tile

typedef float Vector __attribute__((vector_size(kWidth * sizeof(float))));
typedef float Unaligned __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));

// Computes kHeight rows and kTile columns of C.
template <int kHeight>
TRAIN_INLINE void tile(float* c, std::ptrdiff_t c_row, const Strided& a, const float* b,
                       std::ptrdiff_t b_row, int k) {
  Vector low[kHeight] = {}, high[kHeight] = {};
  for (int i = 0; i < k; ++i) {
    const Vector b_low = *reinterpret_cast<const Unaligned*>(b + i * b_row);
    const Vector b_high = *reinterpret_cast<const Unaligned*>(b + i * b_row + kWidth);
    for (int r = 0; r < kHeight; ++r) {
      const float factor = a.data[r * a.row + i * a.column];
      low[r] += factor * b_low;
      high[r] += factor * b_high;
    }
  }
  for (int r = 0; r < kHeight; ++r) {
    *reinterpret_cast<Unaligned*>(c + r * c_row) = low[r];
    *reinterpret_cast<Unaligned*>(c + r * c_row + kWidth) = high[r];
  }
}

// Computes one of the columns that are left after the tiles.
template <int kHeight>
TRAIN_INLINE void column(float* c, std::ptrdiff_t c_row, const Strided& a, const float* b,
                         std::ptrdiff_t b_row, int k) {
  float sum[kHeight] = {};
  for (int i = 0; i < k; ++i)
    for (int r = 0; r < kHeight; ++r) sum[r] += a.data[r * a.row + i * a.column] * b[i * b_row];
  for (int r = 0; r < kHeight; ++r) c[r * c_row] = sum[r];
}

template <int kHeight>
TRAIN_INLINE void band(float* c, std::ptrdiff_t c_row, const Strided& a, const float* b,
                       std::ptrdiff_t b_row, int n, int k) {
  int j = 0;
  for (; j + kTile <= n; j += kTile) tile<kHeight>(c + j, c_row, a, b + j, b_row, k);
  for (; j < n; ++j) column<kHeight>(c + j, c_row, a, b + j, b_row, k);
}

}  // namespace

TRAIN_CLONES void multiply(float* c, std::ptrdiff_t c_row, Strided a, const float* b,
                           std::ptrdiff_t b_row, int m, int n, int k) {
  int i = 0;
  for (; i + kRows <= m; i += kRows, c += kRows * c_row, a.data += kRows * a.row)
    band<kRows>(c, c_row, a, b, b_row, n, k);
  for (; i < m; ++i, c += c_row, a.data += a.row) band<1>(c, c_row, a, b, b_row, n, k);
}

}  // namespace train
