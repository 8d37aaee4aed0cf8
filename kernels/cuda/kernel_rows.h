// SPDX-License-Identifier: Apache-2.0
// Functions that return the table rows of the kernels. Kernels that differ only by type should be
// in the same .cu file: a fat binary compresses each .cu file separately.
#pragma once

#include "kernels/cuda/kernels.h"

namespace rondo::cuda {

// The rows of one type; rows without a name do not exist.
struct DirectRows {
  KernelEntry row[kRedOps];         // direct
  KernelEntry stored[kStoredRows];  // with arguments in device memory
};
struct ConnectedRows {
  KernelEntry connected;  // over connections
  KernelEntry ll_push;    // by LL push
};

// The rows of more than kNarrowRanks ranks of one type.
struct WideRows {
  KernelEntry row[kWideRows];
};

// Each function serves some types; for others the row has no name.
const DirectRows& rows_of_integers(DataType type);
const DirectRows& rows_of_floats(DataType type);  // 16 bits and more
const DirectRows& rows_of_float8(DataType type);
const ConnectedRows& rows_of_sums(DataType type);
const ConnectedRows& rows_of_any(DataType type);
const WideRows& rows_of_wide(DataType type);

const KernelEntry& row_of_copy();
const KernelEntry& row_of_stored_copy();
const KernelEntry& row_of_staged_copy();
const KernelEntry& row_of_clear_lines();
const KernelEntry& row_of_p2p_probe();
const KernelEntry& row_of_meeting();
const KernelEntry& row_of_resolve();
const KernelEntry& row_of_connected_copy();
const KernelEntry& row_of_ll_push_copy();
const KernelEntry& row_of_wide_ll_push_copy();
const KernelEntry& row_of_messages();
const KernelEntry& row_of_counted_messages();
const KernelEntry& row_of_fold_leaves();
const KernelEntry& row_of_multicast(int row);  // row: kernel number - kFirstMulticastKernel

}  // namespace rondo::cuda
