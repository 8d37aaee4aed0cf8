// SPDX-License-Identifier: Apache-2.0
// The table of CUDA calls in a build for the emulated GPU: libcudart.so.13 provides them.
#include "base/gpu.h"

#include <cstdlib>

#include "kernels/cuda/kernels.h"
#include "tests/simt/device/platform.h"
#include "tests/simt/device/table.h"

namespace rondo {

const GpuApi* gpu_api() {
  static const GpuApi& table = simt::gpu_table(&cuda::kernel_entry);
  int devices = 0;
  return table.device_count(&devices) == kGpuSuccess ? &table : nullptr;
}
const char* gpu_absence() {
  if (gpu_api() != nullptr) return "";
  return gpus_are_hidden() ? "CUDA_VISIBLE_DEVICES shows no CUDA device"
                           : "the emulated machine has no device (RONDO_SIMT_DEVICES=0)";
}
bool gpus_are_hidden() {
  return gpu_api() == nullptr && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr &&
         simt::platform().config.devices > 0;
}

}  // namespace rondo
