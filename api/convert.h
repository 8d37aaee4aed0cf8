// SPDX-License-Identifier: Apache-2.0
// Converts the types and operations of nccl.h and rondo.h to Rondo's own, and back. Other numbers
// are an error that states the number. User-made operations (ncclRedOpCreate*) are in comm.h.
#pragma once

#include "api/rondo.h"
#include "base/result.h"
#include "base/types.h"

namespace rondo::api {

// Types and operations that nccl.h does not have.
struct TypeOfRondo {
  ncclDataType_t number;
  DataType type;
};
inline constexpr TypeOfRondo kTypesOfRondo[] = {{rondoInt16, DataType::kInt16},
                                                {rondoUint16, DataType::kUint16}};
struct OpOfRondo {
  ncclRedOp_t number;
  RedOp op;
};
inline constexpr OpOfRondo kOpsOfRondo[] = {
    {rondoBand, RedOp::kBitAnd}, {rondoBor, RedOp::kBitOr}, {rondoBxor, RedOp::kBitXor}};

inline Result<DataType> to_data_type(ncclDataType_t type, const char* function) {
  const int number = static_cast<int>(type);
  if (number >= 0 && number < ncclNumTypes) return static_cast<DataType>(number);
  for (const TypeOfRondo& row : kTypesOfRondo)
    if (row.number == type) return row.type;
  return fail(StatusCode::kInvalidArgument, "{} : invalid type {}", function, number);
}

inline Result<RedOp> to_red_op(ncclRedOp_t op, const char* function) {
  const int number = static_cast<int>(op);
  if (number >= 0 && number < ncclNumOps) return static_cast<RedOp>(number);
  for (const OpOfRondo& row : kOpsOfRondo)
    if (row.number == op) return row.op;
  return fail(StatusCode::kInvalidArgument, "{} : invalid reduction operation {}", function,
              number);
}

inline ncclDataType_t from_data_type(DataType type) {
  for (const TypeOfRondo& row : kTypesOfRondo)
    if (row.type == type) return row.number;
  return static_cast<ncclDataType_t>(type);
}

// Not for kPreMulSum: its handles belong to a communicator.
inline ncclRedOp_t from_red_op(RedOp op) {
  for (const OpOfRondo& row : kOpsOfRondo)
    if (row.op == op) return row.number;
  return static_cast<ncclRedOp_t>(op);
}

}  // namespace rondo::api
