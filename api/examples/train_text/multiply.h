// multiply(): the one matrix product that the model is made of.
//
//   C[m x n] = A[m x k] * B[k x n]
//
// B and C have contiguous rows; A is read through two strides, so that A transposed costs nothing.
// Each element is summed in the order of k, whatever the shape of the call: cutting C into blocks
// of rows does not change a bit. Cost: about 8 to 30 GFlop/s on one core.
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
