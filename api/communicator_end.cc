// SPDX-License-Identifier: Apache-2.0
// End and pause of communicators: finalize, destroy, abort, revoke, suspend, resume.
#include "api/comm.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"

using namespace rondo;
using namespace rondo::api;

namespace {

ncclResult_t end(ncclComm_t comm, const char* function, bool end_calls) {
  if (comm == NCCL_COMM_NULL) return ncclSuccess;
  drop_from_group(comm);
  auto retired = retire(comm, function, end_calls);
  if (!retired.ok()) return report(retired.error());
  tear_down(std::move(*retired));
  return ncclSuccess;
}

// A call is complete on all its ranks when it leaves the queue, so finalizing waits until the queue
// is empty.
Result<ncclResult_t> finalize(ncclComm_t comm) {
  constexpr const char* kFunction = "CommFinalize";
  RONDO_TRY(CommPin pin, find_made_comm(comm, kFunction));
  if (pin->revoked.load())
    return fail(StatusCode::kInvalidUsage, "{}: communicator was revoked", kFunction);
  if (pin->finalized.exchange(true))
    return fail(StatusCode::kInvalidArgument, "{} : comm {} has already been finalized", kFunction,
                fmt::ptr(comm));
  if (auto fault = pin->engine()->fault()) return fault->error();
  if (!pin->blocking()) return pin->order.idle() ? ncclSuccess : ncclInProgress;
  pin->wait_for_queue();
  return ncclSuccess;
}

Status revoke(ncclComm_t comm, int flags) {
  constexpr const char* kFunction = "CommRevoke";
  RONDO_TRY(CommPin pin, find_made_comm(comm, kFunction));
  if (flags != NCCL_REVOKE_DEFAULT)
    return fail(StatusCode::kInvalidArgument, "{} : invalid flags {:#x}", kFunction, flags);
  if (pin->revoked.exchange(true)) return ok_status();
  pin->engine()->revoke();
  return ok_status();
}

Status suspend(ncclComm_t comm, int flags) {
  constexpr const char* kFunction = "CommSuspend";
  RONDO_TRY(CommPin pin, find_made_comm(comm, kFunction));
  if (flags != NCCL_SUSPEND_MEM)
    return fail(StatusCode::kInvalidArgument, "{} : invalid flags {:#x}; use NCCL_SUSPEND_MEM",
                kFunction, flags);
  if (pin->suspended.exchange(true))
    return fail(StatusCode::kInvalidUsage, "{} : comm {} is suspended already", kFunction,
                fmt::ptr(comm));
  pin->wait_for_queue();
  Status gone = pin->engine()->suspend();
  if (!gone.ok()) pin->suspended.store(false);
  return gone;
}

Status resume(ncclComm_t comm) {
  constexpr const char* kFunction = "CommResume";
  RONDO_TRY(CommPin pin, find_made_comm(comm, kFunction));
  if (!pin->suspended.load())
    return fail(StatusCode::kInvalidUsage, "{} : comm {} is not suspended", kFunction,
                fmt::ptr(comm));
  RONDO_CHECK_OK(pin->engine()->resume());
  pin->suspended.store(false);
  return ok_status();
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, CommFinalize, ncclComm_t comm) {
  RONDO_ENTER(CommFinalize);
  auto finalized = finalize(comm);
  return finalized.ok() ? *finalized : report(finalized.error());
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommDestroy, ncclComm_t comm) {
  RONDO_ENTER(CommDestroy);
  return end(comm, "CommDestroy", false);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommAbort, ncclComm_t comm) {
  RONDO_ENTER(CommAbort);
  return end(comm, "CommAbort", true);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommRevoke, ncclComm_t comm, int revokeFlags) {
  RONDO_ENTER(CommRevoke);
  return report(revoke(comm, revokeFlags));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommSuspend, ncclComm_t comm, int flags) {
  RONDO_ENTER(CommSuspend);
  return report(suspend(comm, flags));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommResume, ncclComm_t comm) {
  RONDO_ENTER(CommResume);
  return report(resume(comm));
}
RONDO_CATCH
