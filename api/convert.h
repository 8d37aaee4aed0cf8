// nccl.h's and rondo.h's numbers to Rondo's own, and back. Anything else is refused by name and
// number. User-made operations (ncclRedOpCreate*) are looked up before this (comm.h).
#pragma once

#include "api/rondo.h"
#include "base/result.h"
#include "base/types.h"

namespace rondo::api {

inline Result<DataType> to_data_type(ncclDataType_t type, const char* function) {
  const int number = static_cast<int>(type);
  if (number >= 0 && number < ncclNumTypes) return static_cast<DataType>(number);
  if (number == static_cast<int>(rondoInt16)) return DataType::kInt16;
  if (number == static_cast<int>(rondoUint16)) return DataType::kUint16;
  return fail(Status::kInvalidArgument, "{} : invalid type {}", function, number);
}

inline Result<RedOp> to_red_op(ncclRedOp_t op, const char* function) {
  const int number = static_cast<int>(op);
  if (number >= 0 && number < ncclNumOps) return static_cast<RedOp>(number);
  if (number == static_cast<int>(rondoBand)) return RedOp::kBitAnd;
  if (number == static_cast<int>(rondoBor)) return RedOp::kBitOr;
  if (number == static_cast<int>(rondoBxor)) return RedOp::kBitXor;
  return fail(Status::kInvalidArgument, "{} : invalid reduction operation {}", function, number);
}

}  // namespace rondo::api
