// The host's reduction and copy kernels (SIMD, chosen at run time).
#pragma once

#include <cstddef>

#include "base/types.h"

namespace rondo::host {

struct ReduceArgs {
  const void* const* sources;
  int source_count;
  void* const* targets;
  int target_count;
  std::size_t count;
  int rank_count;
  bool finish;
  bool stream;
};
using ReduceFn = void (*)(const ReduceArgs&);

ReduceFn reduce_function(DataType type, RedOp op);
void scale(void* out, const void* in, std::size_t count, DataType type, const void* scalar);
void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream);
const char* simd_target();

}  // namespace rondo::host
