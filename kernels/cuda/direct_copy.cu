// The copy kernels: bytes, whatever the type.
#include "kernels/cuda/bulk_mover.h"
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_copy() {
  static const KernelEntry row = entry_of<DirectCopy<>>("direct copy");
  return row;
}

const KernelEntry& row_of_connected_copy() {
  static const KernelEntry row = entry_of<Connected<CopyMath>>("connected copy");
  return row;
}

const KernelEntry& row_of_connected_bulk() {
  static const KernelEntry row = entry_of<Connected<BulkMath<>>>("connected bulk copy");
  return row;
}

const KernelEntry& row_of_ll_push_copy() {
  static const KernelEntry row = entry_of<LLPush<CopyMath>>("LL push copy");
  return row;
}

}  // namespace rondo::cuda
