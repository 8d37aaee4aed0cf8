// SPDX-License-Identifier: Apache-2.0
// Loads kernels before they are needed. CUDA loads them lazily, and a first launch that has to load
// its kernel may wait for running kernels that wait for this launch.
#pragma once

#include <initializer_list>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/types.h"

namespace rondo::gpu {

// On the current device: loads `kernels`, and each of `reductions` for every operation and type.
Status load_kernels(const GpuApi& api, std::vector<int> kernels,
                    std::initializer_list<int (*)(DataType type, RedOp op)> reductions);

}  // namespace rondo::gpu
