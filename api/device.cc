// The host side of NCCL's device API: refused, because it hands out NCCL's private device-memory
// layout to kernels that were compiled against it, and Rondo's memory looks different. Everything
// else works without it; programs ask ncclCommQueryProperties first (see communicator_info.cc).
//
// What returns a status says ncclInvalidUsage and why. What returns a team or a number cannot say
// so: a team has zero ranks, a rank number is -1, a slot count is 0.
#include "api/device_types.h"
#include "api/errors.h"
#include "api/export.h"

using namespace rondo;
using namespace rondo::api;

namespace {

ncclResult_t refuse(const char* function) {
  return report(fail(Status::kInvalidUsage,
                     "{} : the device API needs NVIDIA's own device-memory layout, which Rondo "
                     "does not reproduce; use the host API, or kernels without nccl_device.h",
                     function));
}

constexpr ncclTeam kNoTeam{0, 0, 0};

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, DevCommCreate, ncclComm_t, const ncclDevCommRequirements*,
                   ncclDevComm*) {
  return refuse("DevCommCreate");
}
RONDO_API_FUNCTION(ncclResult_t, DevCommDestroy, ncclComm_t, const ncclDevComm*) {
  return refuse("DevCommDestroy");
}

RONDO_API_FUNCTION(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**) {
  return refuse("GetLsaMultimemDevicePointer");
}
RONDO_API_FUNCTION(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t, size_t, ncclMultimemHandle,
                   void**) {
  return refuse("GetMultimemDevicePointer");
}
RONDO_API_FUNCTION(ncclResult_t, GetLsaDevicePointer, ncclWindow_t, size_t, int, void**) {
  return refuse("GetLsaDevicePointer");
}
RONDO_API_FUNCTION(ncclResult_t, GetPeerDevicePointer, ncclWindow_t, size_t, int, void**) {
  return refuse("GetPeerDevicePointer");
}
RONDO_API_FUNCTION(ncclResult_t, GetMultimemDeviceLeInfo, ncclWindow_t, size_t, uint32_t*,
                   size_t*) {
  return refuse("GetMultimemDeviceLeInfo");
}
RONDO_API_FUNCTION(ncclResult_t, GetCftDeviceLeInfo, ncclWindow_t, size_t, int, ncclTeam, uint32_t*,
                   size_t*) {
  return refuse("GetCftDeviceLeInfo");
}
RONDO_API_FUNCTION(ncclResult_t, GetPeerDeviceLeInfo, ncclWindow_t, size_t, int, uint32_t*,
                   size_t*) {
  return refuse("GetPeerDeviceLeInfo");
}

RONDO_API_FUNCTION(ncclTeam, TeamWorld, ncclComm_t) { return kNoTeam; }
RONDO_API_FUNCTION(ncclTeam, TeamLsa, ncclComm_t) { return kNoTeam; }
RONDO_API_FUNCTION(ncclTeam, TeamRail, ncclComm_t) { return kNoTeam; }
RONDO_API_FUNCTION(ncclTeam, TeamCft, ncclComm_t, int) { return kNoTeam; }
RONDO_API_FUNCTION(ncclTeam, TeamCftMultimem, ncclComm_t) { return kNoTeam; }
RONDO_API_FUNCTION(int, TeamRankToWorld, ncclComm_t, ncclTeam, int) { return -1; }
RONDO_API_FUNCTION(int, TeamRankToLsa, ncclComm_t, ncclTeam, int) { return -1; }

RONDO_API_FUNCTION(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam, int, ncclLsaBarrierHandle*,
                   ncclDevResourceRequirements*) {
  return refuse("LsaBarrierCreateRequirement");
}
RONDO_API_FUNCTION(ncclResult_t, GinBarrierCreateRequirement, ncclComm_t, ncclTeam, int,
                   ncclGinBarrierHandle*, ncclDevResourceRequirements*) {
  return refuse("GinBarrierCreateRequirement");
}
RONDO_API_FUNCTION(ncclResult_t, GinInboxA2ACreateRequirement, ncclTeam, int, int,
                   ncclGinInboxA2AHandle*, ncclDevResourceRequirements*) {
  return refuse("GinInboxA2ACreateRequirement");
}
RONDO_API_FUNCTION(ncclResult_t, GinOutboxCreateRequirement, int, int, ncclGinOutboxHandle*,
                   ncclDevResourceRequirements*) {
  return refuse("GinOutboxCreateRequirement");
}
RONDO_API_FUNCTION(int, LLA2ACalcSlots, int, int) { return 0; }
RONDO_API_FUNCTION(ncclResult_t, LLA2ACreateRequirement, int, int, ncclLLA2AHandle*,
                   ncclDevResourceRequirements*) {
  return refuse("LLA2ACreateRequirement");
}
