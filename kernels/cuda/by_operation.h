// SPDX-License-Identifier: Apache-2.0
// Selects an operation of a type at run time.
//
//   by_operation<type>(op, is_signed, [&]<DataType t, RedOp o>() { ... });
//
// t is `type`, or its signed counterpart where that has another result (kernels.h). Guarantees:
// exactly one call of the body, by a sum for an operation that the type does not have. Cost: one
// branch; the code of every operation.
#pragma once

#include "base/fn.h"
#include "base/types.h"
#include "kernels/reduce.h"

namespace rondo::cuda {

constexpr DataType as_signed(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return DataType::kInt8;
    case DataType::kUint16:
      return DataType::kInt16;
    case DataType::kUint32:
      return DataType::kInt32;
    case DataType::kUint64:
      return DataType::kInt64;
    default:
      return type;
  }
}

template <DataType type, class Body>
RONDO_FN decltype(auto) by_operation(RedOp op, bool is_signed, Body&& body) {
  constexpr DataType other = as_signed(type);
  const bool as_other = other != type && is_signed;
  switch (op) {
    case RedOp::kProd:
      return body.template operator()<type, RedOp::kProd>();
    case RedOp::kMax:
      if (as_other) return body.template operator()<other, RedOp::kMax>();
      return body.template operator()<type, RedOp::kMax>();
    case RedOp::kMin:
      if (as_other) return body.template operator()<other, RedOp::kMin>();
      return body.template operator()<type, RedOp::kMin>();
    case RedOp::kAvg:
      if (as_other) return body.template operator()<other, RedOp::kAvg>();
      return body.template operator()<type, RedOp::kAvg>();
    case RedOp::kBitAnd:
      if constexpr (!is_float(type)) return body.template operator()<type, RedOp::kBitAnd>();
      break;
    case RedOp::kBitOr:
      if constexpr (!is_float(type)) return body.template operator()<type, RedOp::kBitOr>();
      break;
    case RedOp::kBitXor:
      if constexpr (!is_float(type)) return body.template operator()<type, RedOp::kBitXor>();
      break;
    case RedOp::kPreMulSum:
      return body.template operator()<type, RedOp::kPreMulSum>();
    case RedOp::kSum:
      break;
  }
  return body.template operator()<type, RedOp::kSum>();
}

}  // namespace rondo::cuda
