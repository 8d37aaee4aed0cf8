// SPDX-License-Identifier: Apache-2.0
// gpu_api() in a build without CUDA.
#include "base/gpu.h"

namespace rondo {

const GpuApi* gpu_api() { return nullptr; }
const char* gpu_absence() { return "this library was built without CUDA (preset cuda builds it)"; }
bool gpus_are_hidden() { return false; }

}  // namespace rondo
