// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/half.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/rows-inl.h"
#include "kernels/host/simd/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

ReduceFn half_row(DataType type, RedOp op) {
  return type == DataType::kFloat16 ? row<DataType::kFloat16>(op) : row<DataType::kBfloat16>(op);
}

ScaleFn half_scale_row(DataType type) {
  return type == DataType::kFloat16 ? float_scale<DataType::kFloat16>
                                    : float_scale<DataType::kBfloat16>;
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

ReduceFn half_function(SimdTarget target, DataType type, RedOp op) {
  return RONDO_PICK(target, half_row)(type, op);
}

ScaleFn half_scale(SimdTarget target, DataType type) {
  return RONDO_PICK(target, half_scale_row)(type);
}

}  // namespace rondo::host
#endif
