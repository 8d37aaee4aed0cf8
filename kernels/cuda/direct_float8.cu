// SPDX-License-Identifier: Apache-2.0
// Direct kernels of 8-bit floats.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectRows& rows_of_float8(DataType type) {
  static const auto rows = direct_rows_of<DataType::kFloat8e4m3, DataType::kFloat8e5m2>();
  return rows[static_cast<int>(type)];
}

}  // namespace rondo::cuda
