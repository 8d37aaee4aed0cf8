// SPDX-License-Identifier: Apache-2.0
// What the exported functions of the emulated libcudart share: linkage and the last error.
//
// Types match CUDA's in layout only (tests/simt/runtime_client.c is compiled against NVIDIA's own
// headers where they are installed): enums are int, handles are pointers.
#pragma once

#include "base/gpu.h"
#include "tests/simt/device/calls.h"

#define RONDO_CUDART extern "C" [[gnu::visibility("default")]] int

namespace rondo::simt {

// Returns an error and keeps it for cudaGetLastError.
inline int kept(GpuError error) {
  if (error != kGpuSuccess) calls::last_error() = error;
  return error;
}

}  // namespace rondo::simt
