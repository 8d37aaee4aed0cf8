// SPDX-License-Identifier: Apache-2.0
// The table of CUDA calls in a build for the emulated GPU: libcudart.so.13 provides them.
#include "base/gpu.h"
#include "kernels/cuda/kernels.h"
#include "tests/simt/device/table.h"

namespace rondo {

const GpuApi* gpu_api() {
  static const GpuApi& table = simt::gpu_table(&cuda::kernel_entry);
  int devices = 0;
  return table.device_count(&devices) == kGpuSuccess ? &table : nullptr;
}
const char* gpu_absence() {
  return gpu_api() != nullptr ? "" : "the emulated machine has no device (RONDO_SIMT_DEVICES=0)";
}

}  // namespace rondo
