// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/launch/kernel_loading.h"

#include <algorithm>

#include "kernels/reduce.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

Status load_kernels(const GpuApi& api, std::vector<int> kernels,
                    std::initializer_list<int (*)(DataType, RedOp)> reductions) {
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      if (!supported(t, o)) continue;
      for (const auto reduction : reductions) kernels.push_back(reduction(t, o));
    }
  // Types of equal width share kernels.
  std::sort(kernels.begin(), kernels.end());
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  for (const int kernel : kernels)
    RONDO_CHECK_OK(check(api.load_kernel(kernel), "loading kernels"));
  return ok_status();
}

}  // namespace rondo::gpu
