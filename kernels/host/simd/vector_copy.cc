// SPDX-License-Identifier: Apache-2.0
// Copies by vectors, through the cache or past it.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/vector_copy.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/reduce-inl.h"
#include "kernels/host/simd/simd_target.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

void vector_copy_bytes(void* to, const void* from, std::size_t bytes, bool stream) {
#if HWY_TARGET == HWY_SCALAR
  (void)stream;
  std::memcpy(to, from, bytes);
#else
  reduce<PlainLanes<std::uint8_t>, Sum, 1>({&from, 1, &to, 1, bytes, 1, false, stream ? 1 : 0},
                                           Nothing{});
#endif
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

VectorCopyFn vector_copy(SimdTarget target) { return RONDO_PICK(target, vector_copy_bytes); }

}  // namespace rondo::host
#endif
