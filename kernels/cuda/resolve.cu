// The resolve kernel, the agree kernel, and the copy kernel whose arguments they write.
#include "kernels/cuda/resolve.h"

#include "kernels/cuda/agree.h"
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_resolve() {
  static const KernelEntry row = entry_of<Resolve>("resolve");
  return row;
}

const KernelEntry& row_of_agree() {
  static const KernelEntry row = entry_of<Agree<>>("agree");
  return row;
}

const KernelEntry& row_of_stored_copy() {
  static const KernelEntry row = stored_entry_of<DirectCopy<true>>("stored copy");
  return row;
}

}  // namespace rondo::cuda
