// rondoCommSetParallelFor: the program's own threads for large copies and sums.
#include "api/arguments.h"
#include "api/comm.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/rondo.h"

using namespace rondo;
using namespace rondo::api;

namespace {

Status set_parallel_for(ncclComm_t comm, rondoParallelFor_t parallel_for) {
  RONDO_TRY(const auto pin, find_made_comm(comm, "CommSetParallelFor"));
  if (in_group())
    return fail(
        StatusCode::kInvalidUsage,
        "CommSetParallelFor waits for earlier calls, which a group has not issued yet: call "
        "it before ncclGroupStart");
  Turn turn(pin->order);
  turn.wait();
  set_pool(*pin->engine(), parallel_for);
  return ok_status();
}

}  // namespace

RONDO_FUNCTION(ncclResult_t, rondoCommSetParallelFor, ncclComm_t comm,
               rondoParallelFor_t parallelFor) {
  return report(set_parallel_for(comm, parallelFor));
}
RONDO_CATCH
