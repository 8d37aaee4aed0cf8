// SPDX-License-Identifier: Apache-2.0
// Kernels for any operation, over connections and by LL push.
#include "kernels/cuda/connected_rows.h"

namespace rondo::cuda {

const ConnectedRows& rows_of_any(DataType type) {
  static const auto rows =
      connected_rows_of<AnyMath, DataType::kUint8, DataType::kUint16, DataType::kUint32,
                        DataType::kUint64, DataType::kFloat16, DataType::kBfloat16,
                        DataType::kFloat32, DataType::kFloat64, DataType::kFloat8e4m3,
                        DataType::kFloat8e5m2>("connected reduce", "LL push reduce");
  return rows[static_cast<int>(type)];
}

}  // namespace rondo::cuda
