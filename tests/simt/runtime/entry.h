// What every exported function of the emulated libcudart shares: its linkage and the last error.
//
// Types are CUDA's by layout (tests/simt/runtime_client.c is compiled against NVIDIA's own headers
// where they are installed): enums are int, handles are pointers.
#pragma once

#include "base/gpu.h"
#include "tests/simt/device/calls.h"

#define RONDO_CUDART extern "C" [[gnu::visibility("default")]] int

namespace rondo::simt {

// Passes an error on, and keeps it for cudaGetLastError.
inline int kept(GpuError error) {
  if (error != kGpuSuccess) calls::last_error() = error;
  return error;
}

}  // namespace rondo::simt
