// SPDX-License-Identifier: Apache-2.0
// The host executor of the reduction table: SIMD over memory, one pass, every source read once.
//
//   const void* in[] = {mine, theirs};
//   void* out[] = {mine};
//   host::reduce_function(type, op)({.sources = in, .source_count = 2, .targets = out,
//                                    .target_count = 1, .count = n, .rank_count = 2,
//                                    .finish = true, .streamed = 0});
//
// Results equal kernels/reduce.h bit for bit (for NaN, only "is NaN"), for every instruction set,
// alignment and count. AVX-512, AVX2 or plain C++ is selected at run time.
// Cost: memory bandwidth, for the wide types and two or more sources; bench/micro_reduce.cc
// measures it. Nothing here allocates, locks or fails. All functions may be called from any thread.
#pragma once

#include <cstddef>

#include "base/types.h"
#include "kernels/host/simd/simd_target.h"

namespace rondo::host {

// Null exactly if !supported(type, op). kPreMulSum returns kSum's function: see scale().
ReduceFn reduce_function(DataType type, RedOp op);

// For PreMulSum: out[i] = in[i] * scalar, rounded once to the element type. `scalar` points to one
// element of that type. out may equal in.
void scale(void* out, const void* in, std::size_t count, DataType type, const void* scalar);

// To and from the wider type that sums of float `type` may be made in: float32 of 16 and 8 bits,
// float64 of float32. narrow() rounds to nearest even.
void widen(void* wide, const void* in, std::size_t count, DataType type);
void narrow(void* out, const void* wide, std::size_t count, DataType type);

// memcpy for any alignment; with `stream`, stores past the caches and a fence. `to` may be `from`.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream);

// The instruction set in use: "AVX3" (AVX-512), "AVX2" or "portable".
const char* simd_target();

}  // namespace rondo::host
