// SPDX-License-Identifier: Apache-2.0
// The resolve kernel, which writes other kernels' arguments.
#include "kernels/cuda/resolve.h"

#include "kernels/cuda/kernel_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_resolve() {
  static const KernelEntry row = entry_of<Resolve>("resolve");
  return row;
}

}  // namespace rondo::cuda
