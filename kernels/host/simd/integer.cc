// SPDX-License-Identifier: Apache-2.0
// All integers.
#include "kernels/host/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/simd/integer.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/host/simd/rows-inl.h"
#include "kernels/host/simd/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::host::HWY_NAMESPACE {

ReduceFn integers_row(DataType type, RedOp op) {
  switch (type) {
    case DataType::kInt8:
      return row<DataType::kInt8>(op);
    case DataType::kUint8:
      return row<DataType::kUint8>(op);
    case DataType::kInt16:
      return row<DataType::kInt16>(op);
    case DataType::kUint16:
      return row<DataType::kUint16>(op);
    case DataType::kInt32:
      return row<DataType::kInt32>(op);
    case DataType::kUint32:
      return row<DataType::kUint32>(op);
    case DataType::kInt64:
      return row<DataType::kInt64>(op);
    case DataType::kUint64:
      return row<DataType::kUint64>(op);
    default:
      return nullptr;
  }
}

}  // namespace rondo::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/simd/pick.h"

namespace rondo::host {

ReduceFn integer_function(SimdTarget target, DataType type, RedOp op) {
  return RONDO_PICK(target, integers_row)(type, op);
}

}  // namespace rondo::host
#endif
