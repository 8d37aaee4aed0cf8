// The table of CUDA calls of a build for the emulated GPU: libcudart.so.13 fills it.
#include "base/gpu.h"

namespace rondo {

const GpuApi* gpu_api() { return nullptr; }
const char* gpu_absence() { return "the emulated GPU has no table yet"; }

}  // namespace rondo
