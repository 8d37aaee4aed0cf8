/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: the C interface of NCCL 2.32, implemented by Rondo.
 *
 * Same names, numbers, layouts and signatures as NVIDIA's header of that version (a superset of
 * 2.28), written anew; tests/abi compares it with NVIDIA's headers. Works in C and C++, with or
 * without the CUDA toolkit: if cuda_runtime.h is not found (or RONDO_NO_CUDA_HEADERS is defined),
 * streams and events are the same opaque pointers that CUDA declares.
 *
 * NCCL_VERSION_CODE is the interface that this header describes. ncclGetVersion returns the version
 * that the library reports (22809, see RONDO_VERSION_CODE). The library accepts the structs of
 * every version, by their size and version fields. Functions return ncclSuccess or an error code;
 * ncclGetLastError explains the error in one sentence. Extensions are in rondo.h.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_include) && !defined(RONDO_NO_CUDA_HEADERS)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23203
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

/* Same as in CUDA's headers; C and C++ allow the repetition. */
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

/* ---- Handles ------------------------------------------------------------------------------- */

typedef struct ncclComm* ncclComm_t;            /* one rank's end of a communicator */
typedef struct ncclWindow_vidmem* ncclWindow_t; /* memory that peers may write */
#define NCCL_COMM_NULL NULL

/* Rendezvous ticket, 128 opaque bytes. The caller makes one and sends it to all ranks. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ---- Results ------------------------------------------------------------------------------- */

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1, /* a CUDA call failed */
  ncclSystemError = 2,        /* the operating system refused something */
  ncclInternalError = 3,      /* a defect of this library */
  ncclInvalidArgument = 4,    /* a value that is never valid */
  ncclInvalidUsage = 5,       /* valid values at the wrong time, or mismatched calls */
  ncclRemoteError = 6,        /* another rank failed, left or aborted */
  ncclInProgress = 7,         /* nonblocking: not finished, poll ncclCommGetAsyncError */
  ncclTimeout = 8,            /* no progress within the deadline */
  ncclNumResults = 9
} ncclResult_t;

/* ---- Constants ----------------------------------------------------------------------------- */

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_API_MAGIC 0xcafebeef /* set by the initialisers, checked by the library */

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096 /* bytes */

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* end the parent's calls first */
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* ---- Communicator options ------------------------------------------------------------------ */

/* Start from NCCL_CONFIG_INITIALIZER and set fields. New versions only append fields; size and
 * version state which fields the caller knows. An undefined field takes the value of the
 * environment, else the default (in a split, shrink or grow: the parent's value). */
typedef struct ncclConfig_v23100 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;       /* 1: calls return when done (default); 0: may return ncclInProgress */
  int cgaClusterSize; /* GPU tuning, 0 or more */
  int minCTAs;        /* 1 or more */
  int maxCTAs;        /* at least minCTAs */
  const char* netName;
  int splitShare;          /* 0 or 1: a split shares the parent's resources */
  int trafficClass;        /* network quality-of-service class, 0 or more */
  const char* commName;    /* shown in logs */
  int collnetEnable;       /* 0 or 1 */
  int CTAPolicy;           /* NCCL_CTA_POLICY_*, or-ed */
  int shrinkShare;         /* 0 or 1 */
  int nvlsCTAs;            /* 1 or more */
  int nChannelsPerNetPeer; /* 1 to 64 */
  int nvlinkCentricSched;  /* 0 or 1 */
  int graphUsageMode;      /* 0, 1 or 2 */
  int numRmaCtx;           /* contexts for put and signal, 0 or more */
  int maxP2pPeers;         /* 1 or more */
  int graphStreamOrdering; /* 0 or 1 */
  int launchOrderImplicit; /* 0 or 1 */
  int numRmaSig;           /* signals per context, 0 or more */
  int rmaEagerInit;        /* 0 or 1 */
  int hostCftMode;         /* ncclHostCftMode_t */
  int nvlsHostMode;        /* ncclNvlsHostMode_t, or-ed */
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                               \
  {                                                                                           \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                                  \
        NCCL_CONFIG_UNDEF_INT, /* blocking, cgaClusterSize, minCTAs, maxCTAs */               \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                  \
        NCCL_CONFIG_UNDEF_PTR,                        /* netName */                           \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* splitShare, trafficClass */          \
        NCCL_CONFIG_UNDEF_PTR,                        /* commName */                          \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* collnetEnable, CTAPolicy */          \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* shrinkShare, nvlsCTAs */             \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* nChannelsPer*, nvlinkCentricSched */ \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* graphUsageMode, numRmaCtx */         \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* maxP2pPeers, graphStreamOrdering */  \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* launchOrderImplicit, numRmaSig */    \
        NCCL_CONFIG_UNDEF_INT,                        /* rmaEagerInit */                      \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* hostCftMode, nvlsHostMode */         \
  }

/* ---- Options of one call -------------------------------------------------------------------- */

/* Vendor-specific option in a list linked by next. Rondo ignores all of them. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/* Must be equal on all ranks of the call, and valid until the call returns. */
typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection; /* allowed algorithms, in the grammar of NCCL_ALGO; NULL: all */
  int forceAlgSelection;    /* 1: an algSelection that cannot be met is an error */
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                               \
  {                                                                                               \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR, /* ext */ \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* minCTAs, maxCTAs */                      \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs, cgaClusterSize */              \
        NCCL_CONFIG_UNDEF_PTR, 1,                     /* algSelection, forceAlgSelection */       \
        NCCL_CONFIG_UNDEF_INT, 0,                     /* CTAPolicy, userProfilerTag */            \
        NCCL_CONFIG_UNDEF_PTR,                        /* launchCompletionEvent */                 \
  }

/* ---- Reductions and element types ----------------------------------------------------------- */

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,           /* handles of ncclRedOpCreate*: from here to ncclMaxRedOp */
  ncclMaxRedOp = 0x7fffffff /* the enum is four bytes wide */
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12,
  rondoMaxDataType = 0x7fffffff /* not a type: widens the enum's range for rondo.h's types */
} ncclDataType_t;

typedef enum {
  ncclScalarDevice = 0,       /* read while the call runs */
  ncclScalarHostImmediate = 1 /* read before ncclRedOpCreate* returns */
} ncclScalarResidence_t;

/* *op multiplies each rank's input by *scalar, then sums. Valid for this communicator and type
 * until destroyed. Calls issued before the destruction still use it. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- The library ---------------------------------------------------------------------------- */

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result); /* never NULL, static */
/* Message of the last error: that of comm if comm has failed, else the calling thread's, else the
 * process's; comm may be NULL. If the thread's last error is that it could not split, shrink or
 * grow comm: that one. Valid until the thread calls this function again. */
const char* ncclGetLastError(ncclComm_t comm);
__attribute__((deprecated("logging reads its variables by itself"))) void ncclResetDebugInit(void);

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;

typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;        /* ncclEncryptionMode_t */
  const char* psk; /* the pre-shared key */
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                             \
  {                                                                    \
    sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, \
        NCCL_ENCRYPTION_MODE_NONE, /* mode */                          \
        NCCL_CONFIG_UNDEF_PTR,     /* psk */                           \
  }
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config);

/* ---- Making and ending communicators --------------------------------------------------------- */

/* Call once per communicator, in a process that lives until all its ranks are initialised. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/* Collective over nranks ranks; rank in 0..nranks-1, each exactly once. Several ranks in one thread
 * must be in a group. config may be NULL. */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);
/* Like ncclCommInitRankConfig with nId tickets, the same in the same order on all ranks. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);
/* All ndev ranks in this process; comm has room for ndev. devlist NULL: devices 0..ndev-1. */
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/* Collective over comm. Ranks of one color (0 or more) form a communicator, ordered by key, then by
 * parent rank; NCCL_SPLIT_NOCOLOR gives *newcomm = NULL. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);
/* Called only by the ranks that stay. Leaves out the listed ranks and renumbers the rest. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
/* A ticket for new ranks. One rank of comm makes it and passes it to ncclCommGrow. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
/* Grows comm to nRanks ranks. Ranks of comm pass rank -1; only the maker of the ticket passes
 * uniqueId. New ranks pass comm NULL, the ticket and their rank. */
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);

ncclResult_t ncclCommFinalize(ncclComm_t comm); /* collective: waits for all calls */
ncclResult_t ncclCommDestroy(ncclComm_t comm);  /* finalises if not yet done, frees */
ncclResult_t ncclCommAbort(ncclComm_t comm);    /* local: ends calls, frees */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags); /* ends calls, keeps the handle */

/* Collective, after all calls. Suspend frees device memory; resume allocates it again. */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);

typedef enum {
  ncclStatGpuMemSuspend = 0,   /* bytes of GPU memory that ncclCommSuspend would free */
  ncclStatGpuMemSuspended = 1, /* 1 while suspended */
  ncclStatGpuMemPersist = 2,   /* bytes of GPU memory that stay */
  ncclStatGpuMemTotal = 3      /* bytes of GPU memory in all */
} ncclCommMemStat_t;
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);

/* The communicator's state: ncclSuccess, ncclInProgress, or the error that ended it. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

/* ---- Memory --------------------------------------------------------------------------------- */

ncclResult_t ncclMemAlloc(void** ptr, size_t size); /* bytes; peers access it without a copy */
ncclResult_t ncclMemFree(void* ptr);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags); /* collective */
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* ---- Collectives ---------------------------------------------------------------------------- */
/* Counts are elements. All ranks of a communicator make the same calls in the same order. */

/* In place: sendbuff == recvbuff. recvbuff is used on the root only. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
/* In place: sendbuff == recvbuff. sendbuff is used on the root only. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
/* In place: sendbuff == recvbuff. */
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
/* sendbuff holds nranks * recvcount. In place: recvbuff == sendbuff + rank * recvcount. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
/* recvbuff holds nranks * sendcount. In place: sendbuff == recvbuff + rank * sendcount. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* Both buffers hold nranks * count and must not overlap. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* The root's recvbuff holds nranks * count. In place: sendbuff == recvbuff + root * count. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);
/* The root's sendbuff holds nranks * count. In place: recvbuff == sendbuff + root * count. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* The same with options for one call; NULL: none. */
ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);

/* ---- Point to point ------------------------------------------------------------------------- */

/* Sends and receives match per pair of ranks, in call order. Calls that must progress together go
 * in one group. */
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/* One-sided: writes into peer's window at peerWinOffset bytes, then raises the peer's signal sigIdx
 * of context ctx. ctx and flags must be 0. */
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream);

typedef struct {
  int opCnt; /* number of signals to wait for */
  int peer;  /* sending rank */
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                            cudaStream_t stream);

/* ---- Groups --------------------------------------------------------------------------------- */

/* Calls of this thread between start and end run together at the outermost end. Groups nest. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

/* Like ncclGroupEnd, but runs nothing and estimates the time of the calls. simInfo may be NULL. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

/* ---- Parameters ------------------------------------------------------------------------------ */
/* Values of the library's environment variables. Returned strings and tables are valid until the
 * thread's next call of the same function; handles are valid until exit. */

typedef struct ncclParamHandle* ncclParamHandle_t;

ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out);
ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len); /* raw bytes */
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen);
void ncclParamDumpAll(void); /* to the log */

/* ---- Profiling twins --------------------------------------------------------------------------
 */
/* ncclX is a weak alias of pncclX: a tool can define its own ncclX and call pncclX. */
#define NCCL_PROFILED_(name) extern __typeof__(nccl##name) pnccl##name
NCCL_PROFILED_(RedOpCreatePreMulSum);
NCCL_PROFILED_(RedOpDestroy);
NCCL_PROFILED_(GetVersion);
NCCL_PROFILED_(GetErrorString);
NCCL_PROFILED_(GetLastError);
__attribute__((deprecated("logging reads its variables by itself"))) void pncclResetDebugInit(void);
NCCL_PROFILED_(SetEncryption);
NCCL_PROFILED_(GetUniqueId);
NCCL_PROFILED_(CommInitRank);
NCCL_PROFILED_(CommInitRankConfig);
NCCL_PROFILED_(CommInitRankScalable);
NCCL_PROFILED_(CommInitAll);
NCCL_PROFILED_(CommSplit);
NCCL_PROFILED_(CommShrink);
NCCL_PROFILED_(CommGetUniqueId);
NCCL_PROFILED_(CommGrow);
NCCL_PROFILED_(CommFinalize);
NCCL_PROFILED_(CommDestroy);
NCCL_PROFILED_(CommAbort);
NCCL_PROFILED_(CommRevoke);
NCCL_PROFILED_(CommSuspend);
NCCL_PROFILED_(CommResume);
NCCL_PROFILED_(CommMemStats);
NCCL_PROFILED_(CommGetAsyncError);
NCCL_PROFILED_(CommCount);
NCCL_PROFILED_(CommCuDevice);
NCCL_PROFILED_(CommUserRank);
NCCL_PROFILED_(MemAlloc);
NCCL_PROFILED_(MemFree);
NCCL_PROFILED_(CommRegister);
NCCL_PROFILED_(CommDeregister);
NCCL_PROFILED_(CommWindowRegister);
NCCL_PROFILED_(CommWindowDeregister);
NCCL_PROFILED_(WinGetUserPtr);
NCCL_PROFILED_(Reduce);
NCCL_PROFILED_(Bcast);
NCCL_PROFILED_(Broadcast);
NCCL_PROFILED_(AllReduce);
NCCL_PROFILED_(ReduceScatter);
NCCL_PROFILED_(AllGather);
NCCL_PROFILED_(AlltoAll);
NCCL_PROFILED_(Gather);
NCCL_PROFILED_(Scatter);
NCCL_PROFILED_(AllReduceConfig);
NCCL_PROFILED_(BroadcastConfig);
NCCL_PROFILED_(ReduceConfig);
NCCL_PROFILED_(AllGatherConfig);
NCCL_PROFILED_(ReduceScatterConfig);
NCCL_PROFILED_(AlltoAllConfig);
NCCL_PROFILED_(GatherConfig);
NCCL_PROFILED_(ScatterConfig);
NCCL_PROFILED_(Send);
NCCL_PROFILED_(Recv);
NCCL_PROFILED_(PutSignal);
NCCL_PROFILED_(Signal);
NCCL_PROFILED_(WaitSignal);
NCCL_PROFILED_(GroupStart);
NCCL_PROFILED_(GroupEnd);
NCCL_PROFILED_(GroupSimulateEnd);
NCCL_PROFILED_(ParamBind);
NCCL_PROFILED_(ParamGetI8);
NCCL_PROFILED_(ParamGetI16);
NCCL_PROFILED_(ParamGetI32);
NCCL_PROFILED_(ParamGetI64);
NCCL_PROFILED_(ParamGetU8);
NCCL_PROFILED_(ParamGetU16);
NCCL_PROFILED_(ParamGetU32);
NCCL_PROFILED_(ParamGetU64);
NCCL_PROFILED_(ParamGetStr);
NCCL_PROFILED_(ParamGet);
NCCL_PROFILED_(ParamGetParameter);
NCCL_PROFILED_(ParamGetAllParameterKeys);
NCCL_PROFILED_(ParamDumpAll);
#undef NCCL_PROFILED_

#ifdef __cplusplus
}
#endif

#endif
