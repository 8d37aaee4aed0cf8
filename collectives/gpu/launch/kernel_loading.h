// Loads kernels before they are needed: CUDA loads them lazily, and a first launch that has to load
// may wait for kernels that wait for it.
#pragma once

#include <initializer_list>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/types.h"

namespace rondo::gpu {

// On the current device: `kernels`, and each of `reductions` for every operation on every type.
Status load_kernels(const GpuApi& api, std::vector<int> kernels,
                    std::initializer_list<int (*)(DataType type, RedOp op)> reductions);

}  // namespace rondo::gpu
