// Registers of the kernels, as ptxas has them for an sm_90: the table that .ci/kernels.py writes,
// kernels/cuda/kernels.tsv. Cost: the file is read once; a look-up demangles a name.
#pragma once

#include "kernels/cuda/kernels.h"

namespace rondo::simt {

bool has_register_table();
// A thread's; 0: the table does not know the kernel.
unsigned registers_of(const cuda::KernelEntry& kernel);

}  // namespace rondo::simt
