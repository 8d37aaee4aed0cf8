// The emulated device's table of CUDA calls (base/gpu.h).
#pragma once

#include "base/gpu.h"
#include "kernels/cuda/kernels.h"

namespace rondo::simt {

// `kernel_of` finds the caller's kernels by number; all callers in a process have the same.
const GpuApi& gpu_table(const cuda::KernelEntry& (*kernel_of)(int kernel));

}  // namespace rondo::simt
