// SPDX-License-Identifier: Apache-2.0
// Functions of each family of element types for each instruction set; each family has its own
// source file. Internal to kernels/host; callers use reduce_kernels.h.
#pragma once

#include <cstddef>

#include "base/types.h"
#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/simd/simd_target.h"

namespace rondo::host {

using ScaleFn = void (*)(void* out, const void* in, std::size_t count, const void* scalar);
using ConvertFn = void (*)(void* out, const void* in, std::size_t count);
using VectorCopyFn = void (*)(void* to, const void* from, std::size_t bytes, bool stream);

// float32, float64
ReduceFn wide_float_function(SimdTarget target, DataType type, RedOp op);
ScaleFn wide_float_scale(SimdTarget target, DataType type);
// float16, bfloat16
ReduceFn half_function(SimdTarget target, DataType type, RedOp op);
ScaleFn half_scale(SimdTarget target, DataType type);
// float8e4m3, float8e5m2
ReduceFn float8_function(SimdTarget target, DataType type, RedOp op);
ScaleFn float8_scale(SimdTarget target, DataType type);
// every integer
ReduceFn integer_function(SimdTarget target, DataType type, RedOp op);
// any type to and from its wider one
ConvertFn widen_function(SimdTarget target, DataType type);
ConvertFn narrow_function(SimdTarget target, DataType type);
// bytes, past the caches
VectorCopyFn vector_copy(SimdTarget target);

}  // namespace rondo::host
