// SPDX-License-Identifier: Apache-2.0
// The message kernel: sizes in its arguments, or in device memory.
#include "kernels/cuda/messages.h"

#include "kernels/cuda/kernel_rows.h"

namespace rondo::cuda {

const KernelEntry& row_of_messages() {
  static const KernelEntry row = entry_of<Messages>("messages");
  return row;
}

const KernelEntry& row_of_counted_messages() {
  static const KernelEntry row = entry_of<CountedMessages>("counted_messages");
  return row;
}

}  // namespace rondo::cuda
