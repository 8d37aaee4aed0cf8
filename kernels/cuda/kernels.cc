// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/kernels.h"

#include "kernels/cuda/kernel_rows.h"

namespace rondo::cuda {
namespace {

const DirectRows& direct_rows(DataType type) {
  if (!is_float(type)) return rows_of_integers(type);
  return size_of(type) == 1 ? rows_of_float8(type) : rows_of_floats(type);
}

const ConnectedRows& connected_rows(int row) {
  const auto type = static_cast<DataType>(row / kMaths);
  return row % kMaths == 0 ? rows_of_sums(type) : rows_of_any(type);
}

}  // namespace

const KernelEntry& kernel_entry(int kernel) {
  if (kernel == kCopyKernel) return row_of_copy();
  if (kernel == kStoredCopyKernel) return row_of_stored_copy();
  if (kernel == kResolveKernel) return row_of_resolve();
  if (kernel == kStagedCopyKernel) return row_of_staged_copy();
  if (kernel == kClearLinesKernel) return row_of_clear_lines();
  if (kernel == kP2pProbeKernel) return row_of_p2p_probe();
  if (kernel == kMeetingKernel) return row_of_meeting();
  if (kernel == kFoldLeavesKernel) return row_of_fold_leaves();
  if (kernel == kWideLLPushCopyKernel) return row_of_wide_ll_push_copy();
  if (kernel >= kFirstWideKernel) {
    const int row = kernel - kFirstWideKernel;
    return rows_of_wide(static_cast<DataType>(row / kWideRows)).row[row % kWideRows];
  }
  if (kernel == kConnectedCopyKernel) return row_of_connected_copy();
  if (kernel == kMessagesKernel) return row_of_messages();
  if (kernel == kCountedMessagesKernel) return row_of_counted_messages();
  if (kernel >= kFirstMulticastKernel) return row_of_multicast(kernel - kFirstMulticastKernel);
  if (kernel == kLLPushCopyKernel) return row_of_ll_push_copy();
  // Kinds of rows have ascending number ranges: check the highest first.
  if (kernel >= kFirstLLPushKernel) return connected_rows(kernel - kFirstLLPushKernel).ll_push;
  if (kernel >= kFirstConnectedKernel)
    return connected_rows(kernel - kFirstConnectedKernel).connected;
  if (kernel >= kFirstStoredKernel) {
    const int row = kernel - kFirstStoredKernel;
    return direct_rows(static_cast<DataType>(row / kStoredRows)).stored[row % kStoredRows];
  }
  const int row = kernel - kFirstDirectKernel;
  return direct_rows(static_cast<DataType>(row / kRedOps)).row[row % kRedOps];
}

}  // namespace rondo::cuda
