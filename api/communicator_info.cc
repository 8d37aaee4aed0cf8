// SPDX-License-Identifier: Apache-2.0
// Queries of a communicator, its timeout and its threads. Only rondoCommSetParallelFor waits.
#include <algorithm>
#include <cstring>

#include "api/arguments.h"
#include "api/comm.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/nccl_device.h"
#include "api/rondo.h"
#include "base/printable.h"
#include "collectives/context/gpu_rank.h"

using namespace rondo;
using namespace rondo::api;

namespace {

// read(comm) returns the number.
template <class Number, class Read>
ncclResult_t answer(ncclComm_t comm, Number* out, const char* function, const char* argument,
                    Read read) {
  auto pin = find_made_comm(comm, function);
  if (!pin.ok()) return report(pin.error());
  if (auto checked = not_null(out, function, argument); !checked.ok()) return report(checked);
  *out = read(**pin);
  return ncclSuccess;
}

// The error that ended a communicator, if any.
std::optional<Error> error_of(const Comm& comm) {
  if (Communicator* engine = comm.engine())
    if (auto fault = engine->fault()) return fault->error();
  return comm.noted();
}

void copy_text(const std::string& from, char* into, std::size_t capacity) {
  const std::size_t length = std::min(from.size(), capacity - 1);
  std::memcpy(into, from.data(), length);
  into[length] = '\0';
}

Status get_fault(ncclComm_t comm, rondoFault_t* fault) {
  constexpr const char* kFunction = "CommGetFault";
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(fault, kFunction, "fault"));
  if (fault->size < sizeof(rondoFault_t))
    return fail(StatusCode::kInvalidArgument,
                "{} : fault->size is {}, not sizeof(rondoFault_t) = {}", kFunction, fault->size,
                sizeof(rondoFault_t));
  *fault = rondoFault_t{};
  fault->size = sizeof(rondoFault_t);
  fault->rank = fault->culprit = -1;
  Communicator* engine = pin->engine();
  if (auto found = engine != nullptr ? engine->fault() : std::nullopt) {
    fault->result = to_nccl(found->status);
    fault->rank = found->rank;
    fault->culprit = found->culprit;
    copy_text(to_string(found->own), fault->call, sizeof(fault->call));
    copy_text(found->text, fault->sentence, sizeof(fault->sentence));
  } else if (auto error = pin->noted()) {
    fault->result = to_nccl(error->code);
    fault->rank = pin->rank;
    copy_text(error->text, fault->sentence, sizeof(fault->sentence));
  }
  return ok_status();
}

Status query_properties(ncclComm_t comm, ncclCommProperties* out) {
  constexpr const char* kFunction = "CommQueryProperties";
  RONDO_TRY(CommPin pin, find_made_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(out, kFunction, "props"));
  if (out->magic != NCCL_API_MAGIC || out->size < offsetof(ncclCommProperties, rank))
    return fail(StatusCode::kInvalidArgument,
                "ncclCommProperties_t argument not initialized via "
                "NCCL_COMM_PROPERTIES_INITIALIZER");
  ncclCommProperties properties{};  // no GIN, no CFT
  properties.size = out->size;
  properties.magic = out->magic;
  properties.version = out->version;
  properties.rank = pin->rank;
  properties.nRanks = pin->size;
  gpu::GpuRank* const rank = gpu_rank_of(*pin->engine());
  if (gpu::DeviceApi* const kernels = rank == nullptr ? nullptr : rank->device_api()) {
    properties.deviceApiSupport = true;
    properties.multimemSupport =
        kernels->has_multicast() && reach_team_of(*pin->engine()) == pin->size;
  }
  properties.devCommRuntimeVersionSize = sizeof(ncclDevComm);
  properties.nLsaTeams = pin->size / reach_team_of(*pin->engine());
  properties.cudaDev = properties.nvmlDev = pin->engine()->options().device;  // -1: the host
  std::memcpy(out, &properties, std::min(out->size, sizeof(properties)));
  return ok_status();
}

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

RONDO_API_FUNCTION(ncclResult_t, CommCount, const ncclComm_t comm, int* count) {
  RONDO_ENTER(CommCount);
  return answer(comm, count, "CommCount", "count", [](const Comm& c) { return c.size; });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommUserRank, const ncclComm_t comm, int* rank) {
  RONDO_ENTER(CommUserRank);
  return answer(comm, rank, "CommUserRank", "rank", [](const Comm& c) { return c.rank; });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommCuDevice, const ncclComm_t comm, int* device) {
  RONDO_ENTER(CommCuDevice);
  return answer(comm, device, "CommCuDevice", "devid",
                [](const Comm& c) { return c.engine()->options().device; });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  RONDO_ENTER(CommGetAsyncError);
  auto pin = find_comm(comm, "CommGetAsyncError");
  if (!pin.ok()) return report(pin.error());
  if (auto checked = not_null(asyncError, "CommGetAsyncError", "asyncError"); !checked.ok())
    return report(checked);
  if (auto error = error_of(**pin)) {
    *asyncError = remember(*error);
  } else if ((*pin)->engine() == nullptr || (*pin)->pending.load(std::memory_order_acquire) > 0) {
    *asyncError = ncclInProgress;
  } else {
    *asyncError = ncclSuccess;
  }
  return ncclSuccess;
}
RONDO_CATCH

RONDO_API_FUNCTION(const char*, GetLastError, ncclComm_t comm) {
  RONDO_ENTER(GetLastError);
  if (comm != nullptr && !last_is_failed_child(comm)) {
    auto found = comms().pin(comm);
    if (found.state == HandleState::kAlive)
      if (auto error = error_of(*found.pin)) return keep_for_caller(error->text);
  }
  return last_error_text();
}
catch (abi::__forced_unwind&) {
  throw;
}
catch (...) {
  return last_error_text();
}

RONDO_API_FUNCTION(ncclResult_t, CommMemStats, ncclComm_t comm, ncclCommMemStat_t stat,
                   uint64_t* value) {
  RONDO_ENTER(CommMemStats);
  if (stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal)
    return report(fail(StatusCode::kInvalidArgument, "CommMemStats : invalid statistic {}",
                       static_cast<int>(stat)));
  return answer(comm, value, "CommMemStats", "value", [&](const Comm& c) -> uint64_t {
    if (stat == ncclStatGpuMemSuspended) return c.suspended.load() ? 1 : 0;
    const uint64_t all = c.gpu_bytes(), droppable = c.engine()->memory().droppable_bytes;
    if (stat == ncclStatGpuMemSuspend) return droppable;
    return stat == ncclStatGpuMemPersist ? all - droppable : all;
  });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommQueryProperties, ncclComm_t comm, ncclCommProperties* props) {
  RONDO_ENTER(CommQueryProperties);
  return report(query_properties(comm, props));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommGetFault, ncclComm_t comm, rondoFault_t* fault) {
  return report(get_fault(comm, fault));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommGetEnded, ncclComm_t comm, int* ranks, int* count) {
  constexpr const char* kFunction = "CommGetEnded";
  auto pin = find_made_comm(comm, kFunction);
  if (!pin.ok()) return report(pin.error());
  if (auto checked = not_null(ranks, kFunction, "ranks"); !checked.ok()) return report(checked);
  if (auto checked = not_null(count, kFunction, "count"); !checked.ok()) return report(checked);
  const std::vector<int> ended = (*pin)->engine()->ended_ranks();
  std::copy(ended.begin(), ended.end(), ranks);
  *count = static_cast<int>(ended.size());
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoGetLastPlan, ncclComm_t comm, char* text, size_t size) {
  auto pin = find_made_comm(comm, "GetLastPlan");
  if (!pin.ok()) return report(pin.error());
  if (auto checked = not_null(text, "GetLastPlan", "text"); !checked.ok()) return report(checked);
  if (size == 0) return report(fail(StatusCode::kInvalidArgument, "GetLastPlan : size is 0"));
  const auto plan = (*pin)->engine()->last_plan();
  const bool any = plan.rounds > 0;  // no plan before the first collective
  copy_text(any ? fmt::format("{} {} {}", name(plan.algorithm), name(plan.protocol),
                              counted(plan.rounds, "round"))
                : std::string(),
            text, size);
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommMemoryUsed, ncclComm_t comm, size_t* bytes) {
  return answer(comm, bytes, "CommMemoryUsed", "bytes",
                [](const Comm& c) -> size_t { return c.memory_bytes(); });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommNetworkRate, ncclComm_t comm, double* bytesPerSecond) {
  return answer(comm, bytesPerSecond, "CommNetworkRate", "bytesPerSecond",
                [](const Comm& c) { return c.engine()->network_gbs() * 1e9; });
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommSetTimeout, ncclComm_t comm, double seconds) {
  auto pin = find_made_comm(comm, "CommSetTimeout");
  if (!pin.ok()) return report(pin.error());
  if (auto checked = seconds_above_zero(seconds, "CommSetTimeout", "seconds"); !checked.ok())
    return report(checked);
  (*pin)->engine()->set_timeout(std::min(seconds, kMaxSeconds));
  return ncclSuccess;
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommSetParallelFor, ncclComm_t comm,
               rondoParallelFor_t parallelFor) {
  return report(set_parallel_for(comm, parallelFor));
}
RONDO_CATCH
