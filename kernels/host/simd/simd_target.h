// SPDX-License-Identifier: Apache-2.0
// Selects which of the compiled instruction sets this process uses.
//
// The choice is made once, from the CPU and the registers that the operating system saves. Tests
// may select a lesser set. Highway's headers generate the code of each target; the choice is made
// here so that the library does not need Highway's shared library at run time.
#pragma once

#include <array>
#include <cstddef>

#include "base/types.h"

namespace rondo::host {

// What a function that reduces gets. Pointers do not have to be aligned. A target may be the same
// buffer as a source, at the same element; any other overlap is an error of the caller.
struct ReduceArgs {
  const void* const* sources;  // in rank order
  int source_count;            // at least 1; the sources form the table's balanced tree
  void* const* targets;        // each receives the whole result
  int target_count;            // at least 1
  std::size_t count;           // elements
  int rank_count;              // the divisor of avg
  bool finish;                 // false: leave avg's sum undivided (a partial sum, rounded)
  int streamed;                // number of leading targets stored past the caches, then a fence
};

using ReduceFn = void (*)(const ReduceArgs&);
using ScaleFn = void (*)(void* out, const void* in, std::size_t count, const void* scalar);
using ConvertFn = void (*)(void* out, const void* in, std::size_t count);
using VectorCopyFn = void (*)(void* to, const void* from, std::size_t bytes, bool stream);

enum class SimdTarget { kPortable = 0, kAvx2 = 1, kAvx3 = 2 };  // kAvx3: AVX-512 F, BW, DQ and VL
inline constexpr std::array kSimdTargets = {SimdTarget::kPortable, SimdTarget::kAvx2,
                                            SimdTarget::kAvx3};

SimdTarget best_simd_target();     // the best of this CPU
SimdTarget current_simd_target();  // the best one unless a test has selected another
const char* name(SimdTarget target);

// Later reduce_function(), scale() and copy_bytes() use `target`, which must not exceed the best.
void use_simd_target_for_test(SimdTarget target);

// Functions of each family of element types for each target; each family has its own source file.
// Internal to kernels/host; callers use reduce_kernels.h. float32, float64:
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
