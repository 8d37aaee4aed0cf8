// Where the rows of the kernels are made. One .cu has what is alike, of many types: a fat binary
// compresses each .cu by itself, so kernels that differ by their type alone are to stand together.
#pragma once

#include "kernels/cuda/kernels.h"

namespace rondo::cuda {

// Of one type; rows without a name do not exist.
struct DirectRows {
  KernelEntry row[kRedOps];     // direct
  KernelEntry stored[kRedOps];  // the same with arguments in device memory
};
struct ConnectedRows {
  KernelEntry connected;  // over connections
  KernelEntry ll_push;    // by LL push
};

// Of the types that each is for; without a name for others.
const DirectRows& rows_of_integers(DataType type);
const DirectRows& rows_of_floats(DataType type);  // of 16 bits and more
const DirectRows& rows_of_float8(DataType type);
const ConnectedRows& rows_of_sums(DataType type);
const ConnectedRows& rows_of_any(DataType type);

const KernelEntry& row_of_copy();
const KernelEntry& row_of_stored_copy();
const KernelEntry& row_of_staged_copy();
const KernelEntry& row_of_resolve();
const KernelEntry& row_of_agree();
const KernelEntry& row_of_connected_copy();
const KernelEntry& row_of_connected_bulk();
const KernelEntry& row_of_ll_push_copy();
const KernelEntry& row_of_messages();
const KernelEntry& row_of_multicast(int row);  // as kernels.h counts them

}  // namespace rondo::cuda
