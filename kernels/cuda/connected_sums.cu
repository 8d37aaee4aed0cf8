// SPDX-License-Identifier: Apache-2.0
// Sums of floats, and copies, over connections and by LL push.
#include "kernels/cuda/connected_rows.h"

namespace rondo::cuda {

const ConnectedRows& rows_of_sums(DataType type) {
  static const auto rows =
      connected_rows_of<SumMath, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                        DataType::kFloat64>("connected sum", "LL push sum");
  return rows[static_cast<int>(type)];
}

const KernelEntry& row_of_connected_copy() {
  static const KernelEntry row = entry_of<Connected<CopyMath>>("connected copy");
  return row;
}

const KernelEntry& row_of_ll_push_copy() {
  static const KernelEntry row = entry_of<LLPush<CopyMath>>("LL push copy");
  return row;
}

}  // namespace rondo::cuda
