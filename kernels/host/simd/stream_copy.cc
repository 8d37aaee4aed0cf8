// SPDX-License-Identifier: Apache-2.0
// Copies that store past the caches.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/stream_copy.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/families.h"
#include "kernels/host/simd/reduce-inl.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

void stream_copy_bytes(void* to, const void* from, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, bytes);
#else
  reduce<PlainLanes<std::uint8_t>, Sum, 1>({&from, 1, &to, 1, bytes, 1, false, 1}, Nothing{});
#endif
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

StreamCopyFn stream_copy(SimdTarget target) { return RONDO_PICK(target, stream_copy_bytes); }

}  // namespace rondo::host
#endif
