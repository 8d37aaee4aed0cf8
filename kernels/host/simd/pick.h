// SPDX-License-Identifier: Apache-2.0
// RONDO_PICK(target, function): the function as compiled for a target. For use in the HWY_ONCE part
// of a source file. For a target that was not compiled it is the build's baseline version, which
// every supported CPU can run.
#pragma once

#include "hwy/highway.h"
#include "kernels/host/simd/simd_target.h"

#if HWY_TARGETS & HWY_AVX3
#define RONDO_AVX3(function) N_AVX3::function
#else
#define RONDO_AVX3(function) HWY_NAMESPACE::function
#endif
#if HWY_TARGETS & HWY_AVX2
#define RONDO_AVX2(function) N_AVX2::function
#else
#define RONDO_AVX2(function) HWY_NAMESPACE::function
#endif

#define RONDO_PICK(target, function)                      \
  ((target) == SimdTarget::kAvx3   ? RONDO_AVX3(function) \
   : (target) == SimdTarget::kAvx2 ? RONDO_AVX2(function) \
                                   : HWY_NAMESPACE::function)
