// SPDX-License-Identifier: Apache-2.0
// float32 and float64.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/wide_float.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/rows-inl.h"
#include "kernels/host/simd/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

ReduceFn wide_float_row(DataType type, RedOp op) {
  return type == DataType::kFloat32 ? row<DataType::kFloat32>(op) : row<DataType::kFloat64>(op);
}

ScaleFn wide_float_scale_row(DataType type) {
  return type == DataType::kFloat32 ? float_scale<DataType::kFloat32>
                                    : float_scale<DataType::kFloat64>;
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

ReduceFn wide_float_function(SimdTarget target, DataType type, RedOp op) {
  return RONDO_PICK(target, wide_float_row)(type, op);
}

ScaleFn wide_float_scale(SimdTarget target, DataType type) {
  return RONDO_PICK(target, wide_float_scale_row)(type);
}

}  // namespace rondo::host
#endif
