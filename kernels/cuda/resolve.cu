// The resolve kernel and the agree kernel, which write other kernels' arguments.
#include "kernels/cuda/resolve.h"

#include "kernels/cuda/agree.h"
#include "kernels/cuda/kernel_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_resolve() {
  static const KernelEntry row = entry_of<Resolve>("resolve");
  return row;
}

const KernelEntry& row_of_agree() {
  static const KernelEntry row = entry_of<Agree>("agree");
  return row;
}

}  // namespace rondo::cuda
