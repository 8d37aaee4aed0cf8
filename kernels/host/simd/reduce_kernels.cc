// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/simd/reduce_kernels.h"

#include <cassert>
#include <cstring>

#include "kernels/host/simd/reduce_portable.h"
#include "kernels/host/simd/simd_target.h"

namespace rondo::host {
namespace {

ReduceFn find(SimdTarget target, DataType type, RedOp op) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64:
      return wide_float_function(target, type, op);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return half_function(target, type, op);
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return float8_function(target, type, op);
    default:
      return integer_function(target, type, op);
  }
}

// Table of all functions of all instruction sets, so that a call costs two loads.
struct Functions {
  ReduceFn of[kSimdTargets.size()][kDataTypes][kRedOps];
  Functions() {
    for (const SimdTarget target : kSimdTargets) {
      for (int type = 0; type < kDataTypes; ++type) {
        for (int op = 0; op < kRedOps; ++op) {
          const auto t = static_cast<DataType>(type);
          const auto o = static_cast<RedOp>(op);
          of[static_cast<int>(target)][type][op] = supported(t, o) ? find(target, t, o) : nullptr;
        }
      }
    }
  }
};

// Integers use the table's scalar code: scaling them is rare.
void scale_portably(void* out, const void* in, std::size_t count, DataType type,
                    const void* scalar) {
  portable::with_type(type, [&]<DataType t>() { portable::scale<t>(out, in, count, scalar); });
}

}  // namespace

ReduceFn reduce_function(DataType type, RedOp op) {
  static const Functions functions;
  if (!supported(type, op)) return nullptr;
  return functions
      .of[static_cast<int>(current_simd_target())][static_cast<int>(type)][static_cast<int>(op)];
}

void scale(void* out, const void* in, std::size_t count, DataType type, const void* scalar) {
  assert(scalar != nullptr);
  const SimdTarget target = current_simd_target();
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64:
      return wide_float_scale(target, type)(out, in, count, scalar);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return half_scale(target, type)(out, in, count, scalar);
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return float8_scale(target, type)(out, in, count, scalar);
    default:
      return scale_portably(out, in, count, type, scalar);
  }
}

void widen(void* wide, const void* in, std::size_t count, DataType type) {
  assert(is_float(type) && size_of(type) < 8);
  widen_function(current_simd_target(), type)(wide, in, count);
}

void narrow(void* out, const void* wide, std::size_t count, DataType type) {
  assert(is_float(type) && size_of(type) < 8);
  narrow_function(current_simd_target(), type)(out, wide, count);
}

// From 4 KiB on, glibc copies by `rep movsb` where it is fast. On AMD cores it is 4 times slower
// than vectors if the source lies a little behind the target within their pages, as every large
// block of malloc lies behind a slot: 16 bytes (glibc's bug 30994).
void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream) {
  constexpr std::size_t kByVectorsFrom = 4 << 10;
  if (to == from || bytes == 0) return;
  assert(to != nullptr && from != nullptr);
  if (stream || bytes >= kByVectorsFrom) {
    vector_copy(current_simd_target())(to, from, bytes, stream);
  } else {
    std::memcpy(to, from, bytes);
  }
}

const char* simd_target() { return name(current_simd_target()); }

}  // namespace rondo::host
