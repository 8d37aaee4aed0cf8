// SPDX-License-Identifier: Apache-2.0
// Direct kernels of integers.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectRows& rows_of_integers(DataType type) {
  static const auto rows =
      direct_rows_of<DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kUint16,
                     DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64>();
  return rows[static_cast<int>(type)];
}

}  // namespace rondo::cuda
