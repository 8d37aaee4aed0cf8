// SPDX-License-Identifier: Apache-2.0
// Teams of NCCL's device API, and its host functions for GIN and CFT, which fail with
// ncclInvalidUsage: Rondo has neither (device_comm.cc has the rest). Programs check
// ncclCommQueryProperties first (see communicator_info.cc).
//
// The functions of teams answer what is true of the communicator, because programs calculate
// with the answer before they check anything (they divide by the ranks of the Lsa team). A
// handle that is no communicator gives a team of 0 ranks, a rank outside the team gives -1; both
// leave an error for ncclGetLastError.
#include "api/comm.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/nccl_device.h"

using namespace rondo;
using namespace rondo::api;

namespace {

ncclResult_t refuse(const char* function) {
  return report(
      fail(StatusCode::kInvalidUsage,
           "{} : Rondo has neither GIN nor CFT, and ncclCommProperties_t says so: use the "
           "Lsa team, or the host API between hosts",
           function));
}

constexpr ncclTeam kNoTeam{0, 0, 0};

ncclTeam world_of(const Comm& comm) { return {comm.size, comm.rank, 1}; }
// Ranks that load and store each other's memory.
ncclTeam lsa_of(const Comm& comm) {
  const int ranks = reach_team_of(*comm.engine());
  return {ranks, comm.rank % ranks, 1};
}
// The ranks at the same place of all Lsa teams.
ncclTeam rail_of(const Comm& comm) {
  const int ranks = reach_team_of(*comm.engine());
  return {comm.size / ranks, comm.rank / ranks, ranks};
}
// Nothing has CFT.
ncclTeam alone(const Comm&) { return {1, 0, 1}; }

ncclTeam team_of(ncclComm_t comm, const char* function, ncclTeam (*of)(const Comm&)) {
  const auto pin = find_made_comm(comm, function);
  if (pin.ok()) return of(**pin);
  report(pin.error());
  return kNoTeam;
}

// The rank within `all` (World or Lsa) of a rank of a team. The calling rank is in both.
Result<int> convert_rank(ncclComm_t comm, const ncclTeam& team, int rank, const char* function,
                         ncclTeam (*all)(const Comm&)) {
  RONDO_TRY(const CommPin pin, find_made_comm(comm, function));
  if (rank < 0 || rank >= team.nRanks)
    return fail(StatusCode::kInvalidArgument, "{} : rank {} is not in the team of {} ranks",
                function, rank, team.nRanks);
  const ncclTeam into = all(*pin);
  const std::int64_t found = into.rank + (std::int64_t{rank} - team.rank) * team.stride;
  if (found >= 0 && found < into.nRanks) return static_cast<int>(found);
  return fail(StatusCode::kInvalidArgument,
              "{} : rank {} of a team of {} ranks (own rank {}, stride {}) is {}, outside of 0..{}",
              function, rank, team.nRanks, team.rank, team.stride, found, into.nRanks - 1);
}

int rank_or_error(const Result<int>& rank) {
  if (rank.ok()) return *rank;
  report(rank.error());
  return -1;
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, GetMultimemDeviceLeInfo, ncclWindow_t, size_t, uint32_t*,
                   size_t*) {
  RONDO_ENTER(GetMultimemDeviceLeInfo);
  return refuse("GetMultimemDeviceLeInfo");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetCftDeviceLeInfo, ncclWindow_t, size_t, int, ncclTeam, uint32_t*,
                   size_t*) {
  RONDO_ENTER(GetCftDeviceLeInfo);
  return refuse("GetCftDeviceLeInfo");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetPeerDeviceLeInfo, ncclWindow_t, size_t, int, uint32_t*,
                   size_t*) {
  RONDO_ENTER(GetPeerDeviceLeInfo);
  return refuse("GetPeerDeviceLeInfo");
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclTeam, TeamWorld, ncclComm_t comm) {
  RONDO_ENTER(TeamWorld);
  return team_of(comm, "TeamWorld", world_of);
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamLsa, ncclComm_t comm) {
  RONDO_ENTER(TeamLsa);
  return team_of(comm, "TeamLsa", lsa_of);
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamRail, ncclComm_t comm) {
  RONDO_ENTER(TeamRail);
  return team_of(comm, "TeamRail", rail_of);
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamCft, ncclComm_t comm, ncclCftTeamMode_t) {
  RONDO_ENTER(TeamCft);
  return team_of(comm, "TeamCft", alone);
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamCftMultimem, ncclComm_t comm) {
  RONDO_ENTER(TeamCftMultimem);
  return team_of(comm, "TeamCftMultimem", alone);
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(int, TeamRankToWorld, ncclComm_t comm, ncclTeam team, int rank) {
  RONDO_ENTER(TeamRankToWorld);
  return rank_or_error(convert_rank(comm, team, rank, "TeamRankToWorld", world_of));
}
RONDO_CATCH_GIVING(-1)
RONDO_API_FUNCTION(int, TeamRankToLsa, ncclComm_t comm, ncclTeam team, int rank) {
  RONDO_ENTER(TeamRankToLsa);
  return rank_or_error(convert_rank(comm, team, rank, "TeamRankToLsa", lsa_of));
}
RONDO_CATCH_GIVING(-1)

RONDO_API_FUNCTION(ncclResult_t, GinBarrierCreateRequirement, ncclComm_t, ncclTeam, int,
                   ncclGinBarrierHandle*, ncclDevResourceRequirements*) {
  RONDO_ENTER(GinBarrierCreateRequirement);
  return refuse("GinBarrierCreateRequirement");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GinInboxA2ACreateRequirement, ncclTeam, int, int,
                   ncclGinInboxA2AHandle*, ncclDevResourceRequirements*) {
  RONDO_ENTER(GinInboxA2ACreateRequirement);
  return refuse("GinInboxA2ACreateRequirement");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GinOutboxCreateRequirement, int, int, ncclGinOutboxHandle*,
                   ncclDevResourceRequirements*) {
  RONDO_ENTER(GinOutboxCreateRequirement);
  return refuse("GinOutboxCreateRequirement");
}
RONDO_CATCH
