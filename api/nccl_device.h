/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_device.h: NCCL's device API.
 *
 * Rondo has windows and barriers of ranks of a host whose GPUs reach each other (the Lsa team):
 * ncclDevCommCreate, the addresses of windows, ncclLsaBarrierSession. It has neither GIN nor CFT:
 * ncclCommProperties_t says so, and their functions return ncclInvalidUsage, with a reason for
 * ncclGetLastError. Ranks on host memory have no device API (deviceApiSupport is false).
 *
 * Structs, numbers and signatures are those of NVIDIA's header of NCCL 2.32, written anew;
 * tests/abi compares them. Programs that were compiled with NVIDIA's headers, 2.28.9 to 2.32.3, get
 * the structs of these. Kernels include nccl_device_code.h by this header. Works in C and C++, with
 * or without the CUDA toolkit.
 *
 *   ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
 *   ncclCommQueryProperties(comm, &properties);
 *   if (!properties.deviceApiSupport) return by_the_host_api(comm);
 */
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include <stdbool.h>

#include "nccl.h"

#ifdef __cplusplus
#define NCCL_EXTERN_C extern "C"
#else
#define NCCL_EXTERN_C
#endif

/* ---- Numbers ------------------------------------------------------------------------------- */

#define NCCL_GIN_MAX_CONNECTIONS 4
#define NCCL_GIN_MAX_ACTIVE_BACKENDS 4
#define NCCL_LE_ID_INVALID ((ncclCftLeId_t)-1)

/* GIN: transfers between hosts that kernels start. */
typedef enum {
  NCCL_GIN_TYPE_NONE = 0, /* in requirements: any */
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4,
  NCCL_GIN_TYPE_EFA_GDA = 5,
  NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

/* Which ranks GIN connects. */
typedef enum {
  NCCL_GIN_CONNECTION_NONE = 0,
  NCCL_GIN_CONNECTION_FULL = 1,
  NCCL_GIN_CONNECTION_RAIL = 2,
  NCCL_GIN_CONNECTION_CUSTOM_STRIDE = 3
} ncclGinConnectionType_t;

typedef enum ncclGinSignalOp_t { ncclGinSignalInc = 0, ncclGinSignalAdd = 1 } ncclGinSignalOp_t;

/* CFT: memory of peers by the number of an endpoint in place of an address. */
typedef enum {
  NCCL_CFT_TEAM_FLAT = 0,
  NCCL_CFT_TEAM_HIER_MULTIMEM = 1,
  NCCL_CFT_TEAM_HIER_LSA = 2
} ncclCftTeamMode_t;

typedef enum { NCCL_CFT_NONE = 0, NCCL_CFT = 1, NCCL_CFT_MULTIMEM = 2 } ncclCftCap_t;

typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;
typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;
typedef uint32_t ncclCftLeId;
typedef ncclCftLeId ncclCftLeId_t;
typedef void* ncclGinWindow_t;

typedef struct {
  uint64_t opaque[2];
} ncclGinRequest_t;

/* ---- Teams and resources ------------------------------------------------------------------- */

/* Ranks at equal distances: World is all ranks, Lsa those that reach each other's memory. */
typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;

typedef struct ncclLsaBarrierHandle {
  ncclDevResourceHandle_t bufHandle;
  int nBarriers;
} ncclLsaBarrierHandle_t;

typedef struct ncclGinBarrierHandle {
  ncclGinSignal_t signal0;
  ncclDevResourceHandle_t unused;
} ncclGinBarrierHandle_t;

typedef struct ncclCftBarrierHandle {
  ncclDevResourceHandle_t bufHandle;
  int nBarriers;
} ncclCftBarrierHandle_t;

typedef struct ncclLLA2AHandle {
  ncclDevResourceHandle_t bufHandle;
  uint32_t nSlots;
} ncclLLA2AHandle_t;

/* Of 2.28 to 2.31 only; opaque. */
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle;

typedef struct ncclWindow_vidmem ncclWindow_vidmem_t; /* for kernels */

typedef struct ncclResourceWindow_vidmem {
  char* lsaFlatBase;
  uint32_t stride4G, mcOffset4K;
} ncclResourceWindow_vidmem_t;

/* ---- The device communicator --------------------------------------------------------------- */

typedef struct ncclDevCommWindowTable* ncclDevCommWindowTable_t;

/* Filled in by ncclDevCommCreate; kernels get a copy. */
typedef struct ncclDevComm {
  unsigned int magic, version;
  int rank, nRanks;
  uint32_t nRanks_rcp32; /* rcp32: for divisions by it */
  int lsaRank, lsaSize;
  uint32_t lsaSize_rcp32;
  ncclDevCommWindowTable_t windowTable;
  ncclWindow_t resourceWindow;
  ncclResourceWindow_vidmem_t resourceWindow_inlined;
  ncclGinBarrierHandle_t hybridDenseGinBarrier;
  ncclMultimemHandle_t lsaMultimem;
  ncclLsaBarrierHandle_t lsaBarrier;
  ncclGinBarrierHandle_t railGinBarrier;
  uint8_t ginConnectionCount, backendIndex;
  uint8_t ginNetDeviceTypes[NCCL_GIN_MAX_CONNECTIONS];
  void* ginHandles[NCCL_GIN_MAX_CONNECTIONS];
  int ginSignalCount, ginCounterCount;
  uint64_t* ginSignalShadows;
  uint32_t ginContextCount;
  int ginConnectionStride, ginContextStride; /* in ranks */
  bool ginStrongLegacySignals;
  uint32_t* abortFlag;
  ncclLsaBarrierHandle_t hybridLsaBarrier;
  ncclGinBarrierHandle_t hybridRailGinBarrier, worldGinBarrier;
  uint32_t ginConnectionStride_rcp32;
  int cftRank, cftSize, cftMultimemRank, cftMultimemSize;
  uint32_t cftMultimemSize_rcp32;
  ncclCftLeId ucLeId, mcLeId;
  ncclCftBarrierHandle_t cftBarrier, cftMultimemBarrier;
} ncclDevComm_t;

typedef struct ncclDevResourceRequirements {
  struct ncclDevResourceRequirements* next;
  size_t bufferSize, bufferAlign;           /* bytes */
  ncclDevResourceHandle_t* outBufferHandle; /* the out... may be null */
  int ginSignalCount, ginCounterCount;
  ncclGinSignal_t* outGinSignalStart;
  ncclGinCounter_t* outGinCounterStart;
} ncclDevResourceRequirements_t;

typedef struct ncclTeamRequirements {
  struct ncclTeamRequirements* next;
  ncclTeam_t team;
  bool multimem;
  ncclMultimemHandle_t* outMultimemHandle;
} ncclTeamRequirements_t;

/* New versions append fields. Set by the initialiser: size, magic, version. */
typedef struct ncclDevCommRequirements {
  size_t size;
  unsigned int magic, version;
  ncclDevResourceRequirements_t* resourceRequirementsList;
  ncclTeamRequirements_t* teamRequirementsList;
  bool lsaMultimem;
  int barrierCount, lsaBarrierCount, railGinBarrierCount;
  int lsaLLA2ABlockCount, lsaLLA2ASlotCount;
  bool ginForceEnable;
  int ginContextCount, ginSignalCount, ginCounterCount;
  ncclGinConnectionType_t ginConnectionType;
  bool ginExclusiveContexts;
  int ginQueueDepth, ginTrafficClass, worldGinBarrierCount;
  bool ginStrongSignalsRequired, ginVaSignalsRequired;
  int ginCustomStride;
  ncclGinType_t ginType;
  bool useRuntimeVersion;
  int cftCaps; /* bits of ncclCftCap_t */
  int cftBarrierCount;
} ncclDevCommRequirements_t;

/* clang-format off: a row a group of fields */
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
  {                                                                                                \
    sizeof(ncclDevCommRequirements_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NULL, NULL, false, 0, 0, \
        0, 0, 0,                           /* lsaMultimem to lsaLLA2ASlotCount */                  \
        false, 4, 0, 0,                    /* ginForceEnable to ginCounterCount */                 \
        NCCL_GIN_CONNECTION_NONE, false,   /* ginConnectionType, ginExclusiveContexts */           \
        0, NCCL_CONFIG_UNDEF_INT, 0,       /* ginQueueDepth to worldGinBarrierCount */             \
        true, true, 1, NCCL_GIN_TYPE_NONE, /* ginStrongSignalsRequired to ginType */               \
        false, NCCL_CFT_NONE, 0            /* useRuntimeVersion to cftBarrierCount */              \
  }
/* clang-format on */

/* New versions append fields; size is that of the caller's version. */
typedef struct ncclCommProperties {
  size_t size;
  unsigned int magic, version;
  int rank, nRanks;
  int cudaDev, nvmlDev; /* Rondo: -1 for host memory */
  bool deviceApiSupport, multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
  uint64_t commHash;
  int ginMinStride;
  ncclGinConnectionType_t ginConnectionType;
  bool ginSupport[64];              /* by GIN type */
  size_t devCommRuntimeVersionSize; /* bytes */
  bool cftSupport, cftMulticastSupport, cftCountedSupport;
} ncclCommProperties_t;

#ifdef __cplusplus /* zeroes the others without a warning */
#define NCCL_COMM_PROPERTIES_INITIALIZER                                                         \
  {                                                                                              \
    sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, 0, 0, 0, 0, false, false,   \
        NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE, 0, 0, NCCL_GIN_CONNECTION_NONE, {}, 0, \
        false, false, false                                                                      \
  }
#else
#define NCCL_COMM_PROPERTIES_INITIALIZER \
  { .size = sizeof(ncclCommProperties_t), .magic = NCCL_API_MAGIC, .version = NCCL_VERSION_CODE }
#endif

/* ---- Functions ----------------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

/* props must come from the initialiser. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props);

/* Create is collective: all ranks with the same requirements. Destroy is not; no kernel may use the
 * device communicator any more. Windows must be from ncclMemAlloc, or memory that is mapped by
 * address and can be exported, at the same offset of all ranks' allocations. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t* reqs,
                               ncclDevComm_t* outDevComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* devComm);

/* Addresses for kernels of this rank's device. A rank outside of the Lsa team is an error. Multimem
 * needs a switch between the GPUs, and NCCL_NVLS_ENABLE=1. */
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** outPtr);
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                          ncclMultimemHandle_t multimem, void** outPtr);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
                                     void** outPtr);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** outPtr);
/* CFT: refused. */
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId* leId,
                                         size_t* leOffset);
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
                                    ncclTeam_t cftTeam, ncclCftLeId* leId, size_t* leOffset);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld,
                                     ncclCftLeId* leId, size_t* leOffset);

/* True of the communicator. World: all ranks. Lsa: consecutive ranks whose GPUs load and store each
 * other's memory (host memory: ranks of one process). Rail: the ranks at the same place of all Lsa
 * teams. Cft: this rank alone. Not a communicator: 0 ranks; not a rank of the team: -1. */
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
#ifdef __cplusplus
ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode = NCCL_CFT_TEAM_FLAT);
#else
ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
#endif
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
                                             ncclLsaBarrierHandle_t* outHandle,
                                             ncclDevResourceRequirements_t* outReq);
/* GIN: refused. */
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                             ncclGinBarrierHandle_t* outHandle,
                                             ncclDevResourceRequirements_t* outReq);
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2,
                                              ncclGinInboxA2AHandle* outHandle,
                                              ncclDevResourceRequirements_t* outReq);
ncclResult_t ncclGinOutboxCreateRequirement(int nBlocks, int size_log2,
                                            ncclGinOutboxHandle* outHandle,
                                            ncclDevResourceRequirements_t* outReq);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize); /* 8 bytes each */
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle,
                                        ncclDevResourceRequirements_t* outReq);

#ifdef __cplusplus
}
#endif

#endif

#if defined(__CUDACC__) || defined(RONDO_DEVICE_PRIMITIVES)
#include "nccl_device_code.h"
#endif
