// SPDX-License-Identifier: Apache-2.0
// float8e4m3 and float8e5m2.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/float8.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/rows-inl.h"
#include "kernels/host/simd/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

ReduceFn float8_row(DataType type, RedOp op) {
  return type == DataType::kFloat8e4m3 ? row<DataType::kFloat8e4m3>(op)
                                       : row<DataType::kFloat8e5m2>(op);
}

ScaleFn float8_scale_row(DataType type) {
  return type == DataType::kFloat8e4m3 ? float_scale<DataType::kFloat8e4m3>
                                       : float_scale<DataType::kFloat8e5m2>;
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

ReduceFn float8_function(SimdTarget target, DataType type, RedOp op) {
  return RONDO_PICK(target, float8_row)(type, op);
}

ScaleFn float8_scale(SimdTarget target, DataType type) {
  return RONDO_PICK(target, float8_scale_row)(type);
}

}  // namespace rondo::host
#endif
