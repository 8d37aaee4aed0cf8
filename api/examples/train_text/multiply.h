// SPDX-License-Identifier: Apache-2.0
// multiply(): the matrix product that the whole model uses.
//
//   C[m x n] = A[m x k] * B[k x n]
//
// B and C have contiguous rows; A is read through two strides, so that A transposed costs nothing.
// Each element is summed in the order of k for every shape of the call: computing C in blocks of
// rows gives the same bits. Speed: about 8 to 30 GFlop/s on one core.
#pragma once

#include <cstddef>

namespace train {

struct Strided {
  const float* data;
  std::ptrdiff_t row, column;  // strides in elements
};

void multiply(float* c, std::ptrdiff_t c_row, Strided a, const float* b, std::ptrdiff_t b_row,
              int m, int n, int k);

}  // namespace train
