#include "kernels/host/reduce_kernels.h"

#include <cstring>

#include "kernels/host/reduce_portable.h"
#include "kernels/host/simd_target.h"

namespace rondo::host {

ReduceFn reduce_function(DataType type, RedOp op) {
  if (!supported(type, op)) return nullptr;
  return portable::with_type(type,
                             [&]<DataType t>() -> ReduceFn { return portable::function<t>(op); });
}

void scale(void* out, const void* in, std::size_t count, DataType type, const void* scalar) {
  portable::with_type(type, [&]<DataType t>() { portable::scale<t>(out, in, count, scalar); });
}

void copy_bytes(void* to, const void* from, std::size_t bytes, bool /*stream*/) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

const char* simd_target() { return name(current_simd_target()); }

}  // namespace rondo::host
