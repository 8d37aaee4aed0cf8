// SPDX-License-Identifier: Apache-2.0
// Accesses to multicast memory (NVLS; sm_90 and later). As in device.h: PTX under nvcc, hooks of
// the emulated GPU under RONDO_SIMT. Relaxed at system scope, 16 bytes at a time.
//
//   store_all(at, vector)    stores to the memory of every device that is bound there
//   load_sum<type>(at)       the sum of all devices' values: float32, or float16 and bfloat16
//                            accumulated in float32; in unspecified order
//   fence_aliases()          between these and ordinary accesses to the same bytes
#pragma once

#include "base/types.h"
#include "kernels/cuda/device.h"

#ifdef RONDO_SIMT
#include "kernels/cuda/simt_multicast_hooks.h"
#endif

namespace rondo::device {

#ifdef RONDO_SIMT

inline void store_all(Vector* at, Vector value) { simt::multicast_store(at, &value); }
template <DataType type>
Vector load_sum(const Vector* at) {
  Vector sum;
  simt::multicast_load_sum(&sum, at,
                           type == DataType::kFloat32   ? simt::Summand::kFloat32
                           : type == DataType::kFloat16 ? simt::Summand::kFloat16
                                                        : simt::Summand::kBfloat16);
  return sum;
}
inline void fence_aliases() { simt::fence_alias(); }

#else

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define RONDO_MULTIMEM(...) asm volatile(__VA_ARGS__)
#else
#define RONDO_MULTIMEM(...) __trap()  // these must not be called
#endif

__device__ __forceinline__ void store_all(Vector* at, Vector value) {
  RONDO_MULTIMEM(
      "multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(ptx::global(at)),
      "f"(__uint_as_float(value.word[0])), "f"(__uint_as_float(value.word[1])),
      "f"(__uint_as_float(value.word[2])), "f"(__uint_as_float(value.word[3]))
      : "memory");
}

template <DataType type>
__device__ __forceinline__ Vector load_sum(const Vector* at) {
  Vector sum{};
  if constexpr (type == DataType::kFloat32) {
    float word[4] = {};
    RONDO_MULTIMEM("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(word[0]), "=f"(word[1]), "=f"(word[2]), "=f"(word[3])
                   : "l"(ptx::global(at))
                   : "memory");
    for (int w = 0; w < 4; ++w) sum.word[w] = __float_as_uint(word[w]);
  } else if constexpr (type == DataType::kFloat16) {
    RONDO_MULTIMEM(
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
        : "=r"(sum.word[0]), "=r"(sum.word[1]), "=r"(sum.word[2]), "=r"(sum.word[3])
        : "l"(ptx::global(at))
        : "memory");
  } else {
    static_assert(type == DataType::kBfloat16);
    RONDO_MULTIMEM(
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
        : "=r"(sum.word[0]), "=r"(sum.word[1]), "=r"(sum.word[2]), "=r"(sum.word[3])
        : "l"(ptx::global(at))
        : "memory");
  }
  return sum;
}

__device__ __forceinline__ void fence_aliases() { asm volatile("fence.proxy.alias;" ::: "memory"); }
#undef RONDO_MULTIMEM

#endif

}  // namespace rondo::device
