// SPDX-License-Identifier: Apache-2.0
// Direct kernels of floats of 16 bits or more.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectRows& rows_of_floats(DataType type) {
  static const auto rows = direct_rows_of<DataType::kFloat16, DataType::kBfloat16,
                                          DataType::kFloat32, DataType::kFloat64>();
  return rows[static_cast<int>(type)];
}

}  // namespace rondo::cuda
