// SPDX-License-Identifier: Apache-2.0
// The host functions of NCCL's device API. They all fail: they give NCCL's private device-memory
// layout to kernels that were compiled for it, and Rondo's layout differs. Programs check
// ncclCommQueryProperties first (see communicator_info.cc).
//
// Functions with a status return ncclInvalidUsage and the reason. Functions without one return a
// team of zero ranks, rank -1 or 0 slots.
#include "api/errors.h"
#include "api/export.h"
#include "api/nccl_device.h"

using namespace rondo;
using namespace rondo::api;

namespace {

ncclResult_t refuse(const char* function) {
  return report(fail(StatusCode::kInvalidUsage,
                     "{} : the device API needs NVIDIA's own device-memory layout, which Rondo "
                     "does not reproduce; use the host API, or kernels without nccl_device.h",
                     function));
}

constexpr ncclTeam kNoTeam{0, 0, 0};

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, DevCommCreate, ncclComm_t, const ncclDevCommRequirements*,
                   ncclDevComm*) {
  RONDO_ENTER(DevCommCreate);
  return refuse("DevCommCreate");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, DevCommDestroy, ncclComm_t, const ncclDevComm*) {
  RONDO_ENTER(DevCommDestroy);
  return refuse("DevCommDestroy");
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**) {
  RONDO_ENTER(GetLsaMultimemDevicePointer);
  return refuse("GetLsaMultimemDevicePointer");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t, size_t, ncclMultimemHandle,
                   void**) {
  RONDO_ENTER(GetMultimemDevicePointer);
  return refuse("GetMultimemDevicePointer");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetLsaDevicePointer, ncclWindow_t, size_t, int, void**) {
  RONDO_ENTER(GetLsaDevicePointer);
  return refuse("GetLsaDevicePointer");
}
RONDO_CATCH
RONDO_API_FUNCTION(ncclResult_t, GetPeerDevicePointer, ncclWindow_t, size_t, int, void**) {
  RONDO_ENTER(GetPeerDevicePointer);
  return refuse("GetPeerDevicePointer");
}
RONDO_CATCH
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

RONDO_API_FUNCTION(ncclTeam, TeamWorld, ncclComm_t) {
  RONDO_ENTER(TeamWorld);
  return kNoTeam;
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamLsa, ncclComm_t) {
  RONDO_ENTER(TeamLsa);
  return kNoTeam;
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamRail, ncclComm_t) {
  RONDO_ENTER(TeamRail);
  return kNoTeam;
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamCft, ncclComm_t, ncclCftTeamMode_t) {
  RONDO_ENTER(TeamCft);
  return kNoTeam;
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(ncclTeam, TeamCftMultimem, ncclComm_t) {
  RONDO_ENTER(TeamCftMultimem);
  return kNoTeam;
}
RONDO_CATCH_GIVING(kNoTeam)
RONDO_API_FUNCTION(int, TeamRankToWorld, ncclComm_t, ncclTeam, int) {
  RONDO_ENTER(TeamRankToWorld);
  return -1;
}
RONDO_CATCH_GIVING(-1)
RONDO_API_FUNCTION(int, TeamRankToLsa, ncclComm_t, ncclTeam, int) {
  RONDO_ENTER(TeamRankToLsa);
  return -1;
}
RONDO_CATCH_GIVING(-1)

RONDO_API_FUNCTION(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam, int, ncclLsaBarrierHandle*,
                   ncclDevResourceRequirements*) {
  RONDO_ENTER(LsaBarrierCreateRequirement);
  return refuse("LsaBarrierCreateRequirement");
}
RONDO_CATCH
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
RONDO_API_FUNCTION(int, LLA2ACalcSlots, int, int) {
  RONDO_ENTER(LLA2ACalcSlots);
  return 0;
}
RONDO_CATCH_GIVING(0)
RONDO_API_FUNCTION(ncclResult_t, LLA2ACreateRequirement, int, int, ncclLLA2AHandle*,
                   ncclDevResourceRequirements*) {
  RONDO_ENTER(LLA2ACreateRequirement);
  return refuse("LLA2ACreateRequirement");
}
RONDO_CATCH
