// SPDX-License-Identifier: Apache-2.0
// Tickets, and the functions that create a communicator from them.
#include <vector>

#include "api/arguments.h"
#include "api/config.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/grow_ticket.h"
#include "base/guard.h"
#include "transport/cuda/device.h"

using namespace rondo;
using namespace rondo::api;

namespace {

struct InitArguments {
  const char* function;
  ncclComm_t* out;
  int ranks, rank;
  const ncclUniqueId* ids;
  int id_count;
  const ncclConfig_t* config;
  const rondoCommOptions_t* options;
};

Status describe(const InitArguments& arguments, NewComm* comm, CreateRequest* request) {
  RONDO_CHECK_OK(not_null(arguments.out, arguments.function, "comm"));
  RONDO_CHECK_OK(rank_in_range(arguments.rank, arguments.ranks));
  if (arguments.id_count < 1 || arguments.id_count > arguments.ranks)
    return fail(StatusCode::kInvalidArgument, "{} : {} unique ids for {} ranks; give 1 to {}",
                arguments.function, arguments.id_count, arguments.ranks, arguments.ranks);
  RONDO_CHECK_OK(not_null(arguments.ids, arguments.function, "commIds"));
  RONDO_TRY(comm->config, parse_config(arguments.config, nullptr));
  RONDO_TRY(comm->options, make_options(comm->config, arguments.options));
  request->rank = arguments.rank;
  request->size = arguments.ranks;
  request->id = from_ticket(arguments.ids[0]);
  for (int i = 1; i < arguments.id_count; ++i)
    request->more_ids.push_back(from_ticket(arguments.ids[i]));
  request->options = comm->options;
  return ok_status();
}

ncclResult_t init(const InitArguments& arguments) {
  NewComm comm;
  CreateRequest request;
  if (auto described = describe(arguments, &comm, &request); !described.ok())
    return note_in_group(report(described));
  return make_comm(arguments.out, std::move(comm), [request](std::function<bool()> aborted) {
    CreateRequest own = request;
    own.aborted = std::move(aborted);
    return Communicator::create(own);
  });
}

// On the host, the entries of a device list only have to be 0 or more; they are not used. On CUDA
// they are devices, and a device may appear several times. Without a list, rank r uses device r
// modulo the number of devices.
Status check_init_all(const ncclComm_t* comms, int count, const int* devices) {
  RONDO_CHECK_OK(not_null(comms, "CommInitAll", "comms"));
  if (count < 1)
    return fail(StatusCode::kInvalidArgument, "Invalid device count requested : {}", count);
  if (count > kMaxRanksOfProcess)
    return fail(StatusCode::kInvalidArgument,
                "Invalid device count requested : {} : a process has at most {} ranks; start more "
                "processes, which call ncclCommInitRank",
                count, kMaxRanksOfProcess);
  for (int i = 0; devices != nullptr && i < count; ++i)
    if (devices[i] < 0)
      return fail(StatusCode::kInvalidArgument, "CommInitAll : invalid device {} at position {}",
                  devices[i], i);
  RONDO_TRY(const int here, gpu::device_for_new_rank());
  if (here == gpu::kHostRank) return ok_status();
  int existing = 0;
  RONDO_CHECK_OK(gpu::check(gpu_api()->device_count(&existing), "cudaGetDeviceCount"));
  for (int i = 0; devices != nullptr && i < count; ++i)
    if (devices[i] >= existing)
      return fail(StatusCode::kInvalidUsage,
                  "CommInitAll : device {} at position {} does not exist; there are {}", devices[i],
                  i, existing);
  return ok_status();
}

ncclResult_t init_of_all(ncclComm_t* comm, int count, int rank, const int* devices,
                         const ncclUniqueId& ticket) {
  const InitArguments arguments{"CommInitAll", comm + rank, count,   rank,
                                &ticket,       1,           nullptr, nullptr};
  const auto here = gpu::device_for_new_rank();
  if (!here.ok() || *here == gpu::kHostRank) return init(arguments);
  int existing = 1;
  gpu_api()->device_count(&existing);
  const gpu::DeviceScope scope(devices != nullptr ? devices[rank] : rank % existing);
  if (!scope.entered().ok()) return note_in_group(report(scope.entered()));
  return init(arguments);
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, GetUniqueId, ncclUniqueId* uniqueId) {
  RONDO_ENTER(GetUniqueId);
  if (auto checked = not_null(uniqueId, "GetUniqueId", "out"); !checked.ok())
    return report(checked);
  auto ticket = new_ticket();
  if (ticket.ok()) *uniqueId = *ticket;
  return report(ticket);
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                   int rank) {
  RONDO_ENTER(CommInitRank);
  return init({"CommInitRank", comm, nranks, rank, &commId, 1, nullptr, nullptr});
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommInitRankConfig, ncclComm_t* comm, int nranks,
                   ncclUniqueId commId, int rank, ncclConfig_t* config) {
  RONDO_ENTER(CommInitRankConfig);
  return init({"CommInitRankConfig", comm, nranks, rank, &commId, 1, config, nullptr});
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank,
                   int nId, ncclUniqueId* commIds, ncclConfig_t* config) {
  RONDO_ENTER(CommInitRankScalable);
  return init({"CommInitRankScalable", newcomm, nranks, myrank, commIds, nId, config, nullptr});
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoCommInitRankOptions, ncclComm_t* comm, int nranks,
               ncclUniqueId commId, int rank, ncclConfig_t* config,
               const rondoCommOptions_t* options) {
  return init({"CommInitRankOptions", comm, nranks, rank, &commId, 1, config, options});
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  RONDO_ENTER(CommInitAll);
  if (auto checked = check_init_all(comm, ndev, devlist); !checked.ok())
    return note_in_group(report(checked));
  auto ticket = new_ticket();
  if (!ticket.ok()) return note_in_group(report(ticket));
  start_group();
  for (int rank = 0; rank < ndev; ++rank) {
    const Status asked = guarded("CommInitAll", [&] {
      init_of_all(comm, ndev, rank, devlist, *ticket);
      return ok_status();
    });
    if (!asked.ok()) note_in_group(report(asked));
  }
  return end_group();
}
RONDO_CATCH
