// SPDX-License-Identifier: Apache-2.0
// The kernel of sums along a tree of leaves.
#include "kernels/cuda/fold_leaves.h"

#include "kernels/cuda/kernel_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_fold_leaves() {
  static const KernelEntry row = entry_of<FoldLeaves>("fold leaves");
  return row;
}

}  // namespace rondo::cuda
