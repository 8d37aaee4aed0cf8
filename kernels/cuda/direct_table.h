// Where the rows of the direct kernels are made: one .cu a type, or a width of integers.
#pragma once

#include "kernels/cuda/kernels.h"

namespace rondo::cuda {

// The rows of one type, by RedOp or by math (sums, any); rows without a name do not exist.
struct DirectTable {
  KernelEntry row[kRedOps];       // direct
  KernelEntry stored[kRedOps];    // the same with arguments in device memory
  KernelEntry connected[kMaths];  // over connections
  KernelEntry ll_push[kMaths];    // by LL push
};

// Declared for every type, defined by the .cu files.
const DirectTable& rows_of_int8();
const DirectTable& rows_of_uint8();
const DirectTable& rows_of_int16();
const DirectTable& rows_of_uint16();
const DirectTable& rows_of_int32();
const DirectTable& rows_of_uint32();
const DirectTable& rows_of_int64();
const DirectTable& rows_of_uint64();
const DirectTable& rows_of_float16();
const DirectTable& rows_of_float32();
const DirectTable& rows_of_float64();
const DirectTable& rows_of_bfloat16();
const DirectTable& rows_of_float8e4m3();
const DirectTable& rows_of_float8e5m2();
const KernelEntry& row_of_copy();
const KernelEntry& row_of_stored_copy();
const KernelEntry& row_of_resolve();
const KernelEntry& row_of_agree();
const KernelEntry& row_of_connected_copy();
const KernelEntry& row_of_connected_bulk();
const KernelEntry& row_of_ll_push_copy();
const KernelEntry& row_of_messages();
const KernelEntry& row_of_multicast(int row);  // as kernels.h counts them

}  // namespace rondo::cuda
