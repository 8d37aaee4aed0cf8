// SPDX-License-Identifier: Apache-2.0
// The types of the functions that reduce, scale, convert and copy memory, for every instruction
// set.
#pragma once

#include <cstddef>

namespace rondo::host {

// Pointers do not have to be aligned. A target may be the same buffer as a source, at the same
// element; any other overlap is an error of the caller.
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

}  // namespace rondo::host
