// The host executor of the reduction table: SIMD over memory, one pass, every source read once.
//
//   const void* in[] = {mine, theirs};
//   void* out[] = {mine};
//   host::reduce_function(type, op)({.sources = in, .source_count = 2, .targets = out,
//                                    .target_count = 1, .count = n, .rank_count = 2,
//                                    .finish = true, .streamed = 0});
//
// Results equal kernels/reduce.h bit for bit (of a NaN only that it is one), whatever the
// instruction set, alignment or count: AVX-512, AVX2 or plain C++, chosen at run time.
// Cost: memory bandwidth from two sources upwards for the wide types; bench/micro_reduce.cc says.
// Nothing here allocates, locks or fails. All functions may be called from any thread.
#pragma once

#include <cstddef>

#include "base/types.h"

namespace rondo::host {

// Pointers need no alignment. A target may be the same buffer as a source, at the same element; any
// other overlap is an error of the caller.
struct ReduceArgs {
  const void* const* sources;  // in rank order
  int source_count;            // 1..; the sources form the table's balanced tree
  void* const* targets;        // each receives the whole result
  int target_count;            // 1..
  std::size_t count;           // elements
  int rank_count;              // the divisor of avg
  bool finish;                 // false: leave avg's sum undivided (a partial sum, rounded)
  int streamed;                // number of first targets written past the caches, then a fence
};

using ReduceFn = void (*)(const ReduceArgs&);

// Never null where supported(type, op), null elsewhere. kPreMulSum gives kSum's function: see
// scale().
ReduceFn reduce_function(DataType type, RedOp op);

// PreMulSum's preparation: out[i] = in[i] * scalar, rounded once to the element type. `scalar`
// points to one element of that type. out may be in.
void scale(void* out, const void* in, std::size_t count, DataType type, const void* scalar);

// memcpy, or with `stream` the same past the caches, and a fence. to may be from.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream);

// The instruction set in use: "AVX3" (AVX-512), "AVX2" or "portable".
const char* simd_target();

}  // namespace rondo::host
