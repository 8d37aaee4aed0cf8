// SPDX-License-Identifier: Apache-2.0
// The kernels over multicast memory.
#include "kernels/cuda/multicast.h"

#include "kernels/cuda/kernel_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_multicast(int row) {
  static const KernelEntry rows[kMulticastKernels] = {
      entry_of<Multicast<MulticastCopy>>("multicast copy"),
      entry_of<Multicast<MulticastSum<DataType::kFloat32>>>("multicast sum"),
      entry_of<Multicast<MulticastSum<DataType::kFloat16>>>("multicast sum"),
      entry_of<Multicast<MulticastSum<DataType::kBfloat16>>>("multicast sum")};
  return rows[row];
}

}  // namespace rondo::cuda
