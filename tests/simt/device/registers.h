// SPDX-License-Identifier: Apache-2.0
// Register counts of the kernels, as ptxas reports them for sm_90: the table that .ci/kernels.py
// writes, kernels/cuda/kernels.tsv. Cost: the file is read once; a look-up demangles a name.
#pragma once

#include "kernels/cuda/kernels.h"

namespace rondo::simt {

bool has_register_table();
// Registers per thread; 0: the kernel is not in the table.
unsigned registers_of(const cuda::KernelEntry& kernel);

}  // namespace rondo::simt
