// SPDX-License-Identifier: Apache-2.0
// The reference result: the exact output of every collective on every rank. Written for clarity,
// not speed.
//
// Inputs depend only on (seed, rank, index), so every rank can compute the inputs of all others.
// Reductions follow the balanced binary tree over ranks with the table of kernels/reduce.h (whose
// conversions and operations have their own tests against independent code).
#pragma once

#include <cstddef>
#include <vector>

#include "base/types.h"

namespace rondo::test {

struct Case {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  int ranks = 2;
  int root = 0;
  std::size_t count = 1;  // as the C API counts: per rank for all-gather, reduce-scatter, ...
  unsigned seed = 1;
};

using Bytes = std::vector<std::byte>;

std::size_t input_elements(const Case& c);   // of any rank (the root's, for scatter)
std::size_t output_elements(const Case& c);  // of any rank (the root's, for gather)

// Values whose reduction over many ranks stays finite and, for integers, wraps.
Bytes make_input(const Case& c, int rank);
// The factor of PreMulSum that `rank` uses.
Bytes make_scalar(const Case& c, int rank);
// The whole output of `rank`, or nothing if the collective does not write it.
Bytes expected_output(const Case& c, int rank);

// Index of the first element that differs (NaN equals NaN), or -1.
std::ptrdiff_t first_difference(DataType type, const std::byte* got, const std::byte* want,
                                std::size_t elements);

}  // namespace rondo::test
