// SPDX-License-Identifier: Apache-2.0
// Makes the table rows of the kernels over connections and of LL push. One row serves the signed
// and the unsigned integer of a width. Included by .cu files only.
#pragma once

#include <array>

#include "kernels/cuda/any_math.h"
#include "kernels/cuda/connected.h"
#include "kernels/cuda/kernel_rows.h"
#include "kernels/cuda/ll_push.h"

namespace rondo::cuda {

// By type. MathOf: SumMath or AnyMath.
template <template <DataType> class MathOf, DataType... types>
std::array<ConnectedRows, kDataTypes> connected_rows_of(const char* connected,
                                                        const char* ll_push) {
  std::array<ConnectedRows, kDataTypes> table{};
  ((table[static_cast<int>(types)] = {entry_of<Connected<MathOf<types>>>(connected),
                                      entry_of<LLPush<MathOf<types>>>(ll_push)}),
   ...);
  return table;
}

}  // namespace rondo::cuda
