// SPDX-License-Identifier: Apache-2.0
// ncclRedOpCreatePreMulSum and ncclRedOpDestroy. A call copies the operation when it is issued, so
// the operation may be destroyed right after.
#include <cstring>

#include "api/arguments.h"
#include "api/comm.h"
#include "api/convert.h"
#include "api/errors.h"
#include "api/export.h"

using namespace rondo;
using namespace rondo::api;

namespace {

Status create(ncclRedOp_t* op, const void* scalar, ncclDataType_t type,
              ncclScalarResidence_t residence, ncclComm_t comm) {
  constexpr const char* kFunction = "RedOpCreatePreMulSum";
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(op, kFunction, "op"));
  RONDO_CHECK_OK(not_null(scalar, kFunction, "scalar"));
  UserOp made{};
  RONDO_TRY(made.type, to_data_type(type, kFunction));
  switch (residence) {
    case ncclScalarHostImmediate:
      std::memcpy(made.scalar.data(), scalar, size_of(made.type));
      break;
    case ncclScalarDevice:
      made.late_scalar = scalar;
      break;
    default:
      return fail(StatusCode::kInvalidArgument, "{} : invalid residence {}", kFunction,
                  static_cast<int>(residence));
  }
  *op = static_cast<ncclRedOp_t>(pin->add_user_op(made));
  return ok_status();
}

Status destroy(ncclRedOp_t op, ncclComm_t comm) {
  constexpr const char* kFunction = "RedOpDestroy";
  const int number = static_cast<int>(op);
  if (number >= 0 && number < ncclNumOps)
    return fail(StatusCode::kInvalidArgument,
                "{} : operation {} is a builtin, it cannot be destroyed", kFunction, number);
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  if (pin->remove_user_op(number)) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : reduction operation {} unknown to this communicator", kFunction, number);
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, RedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
                   ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  RONDO_ENTER(RedOpCreatePreMulSum);
  return report(create(op, scalar, datatype, residence, comm));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, RedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  RONDO_ENTER(RedOpDestroy);
  return report(destroy(op, comm));
}
RONDO_CATCH
