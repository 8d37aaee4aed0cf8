/* SPDX-License-Identifier: Apache-2.0 */
/* rondo.h: Rondo's extensions of nccl.h, in C.
 *
 * Functions return an ncclResult_t; ncclGetLastError() explains a failure in one sentence.
 * Counts and displacements are elements of datatype, times are seconds, sizes are bytes. A buffer
 * of more than 2^48 bytes and a time that is NaN are ncclInvalidArgument. The collectives can be
 * called in groups (ncclGroupStart/End), follow the ordering rule of nccl.h and accept a NULL
 * stream or one of rondoStreamCreate. Example: a reduction with XOR on a host stream.
 *
 *   rondoStream_t queue;
 *   rondoStreamCreate(&queue);
 *   ncclAllReduce(in, out, n, ncclUint64, rondoBxor, comm, rondoStreamHandle(queue));
 *   ... other work ...
 *   rondoStreamSynchronize(queue);      // out is ready
 */
#ifndef RONDO_H_
#define RONDO_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of Rondo itself, for example "0.1.0"; static, never NULL. */
const char* rondoGetVersion(void);

/* ---- Element types and reductions ------------------------------------------------------------ */

#define rondoInt16 ((ncclDataType_t)64)
#define rondoUint16 ((ncclDataType_t)65)

/* Bitwise and, or, exclusive or. Integer types only; ncclInvalidArgument for other types. */
#define rondoBand ((ncclRedOp_t)0x7ffffff0)
#define rondoBor ((ncclRedOp_t)0x7ffffff1)
#define rondoBxor ((ncclRedOp_t)0x7ffffff2)

/* ---- Collectives with a count per rank ------------------------------------------------------- */
/* Arrays have one entry per rank of comm and are read before the call returns. Part r of a buffer
 * starts at displacement [r] and has count [r] elements. A received part must overlap no other one
 * and no sent one, or ncclInvalidArgument names both; only a rank's own part may be at one place in
 * both buffers. If two ranks disagree about the count between them, both get ncclInvalidUsage with
 * the two numbers, and no memory outside the buffers is accessed. */

/* Sends part r of sendbuff to rank r and receives from rank r into part r of recvbuff. */
ncclResult_t rondoAllToAllv(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                            void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* The same with counts and offsets in device memory, read by the GPU when the call runs: the host
 * does not wait for them, and a replay of a CUDA graph reads them again. For a mixture of experts:
 * dispatch gives NULL for recvcounts, and `received`; combine swaps the roles.
 *
 * maxcount, equal on all ranks and at least 1: no count is larger. recvcounts NULL: a part may have
 * any count up to it; else recvcounts[r] elements. sdispls, rdispls NULL: part r begins at
 * r * maxcount, in a buffer for such parts of all ranks. received[r], unless NULL, is set to the
 * number of elements that came from rank r. No part of recvbuff may overlap another one or one of
 * sendbuff; a call in place is ncclInvalidArgument.
 *
 * A count that is larger than maxcount, or differs from the receiver's, and a part that ends beyond
 * the memory of cudaMalloc or ncclMemAlloc in which its buffer begins, end the communicator with
 * ncclInvalidUsage on all ranks (ncclCommGetAsyncError, the next call); the text has both ranks and
 * both numbers, and the pair's data do not move. The same holds where another rank calls
 * rondoAllToAllv, and the text has both calls; but between hosts data may have moved before, and
 * a later call may get the error, and ranks that share a GPU end by the timeout. In other memory a
 * GPU reads and writes what the numbers say. GPUs: where kernels move the messages between all
 * ranks; elsewhere ncclInvalidUsage, on every rank, and nothing is sent. On host memory the arrays
 * are read before the call returns, and recvcounts NULL needs a NULL stream, no group, and a
 * blocking communicator. */
ncclResult_t rondoAllToAllvDevice(const void* sendbuff, const size_t* sendcounts,
                                  const size_t* sdispls, void* recvbuff, const size_t* recvcounts,
                                  const size_t* rdispls, size_t* received, size_t maxcount,
                                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* Every rank receives the sendcount elements of every rank. recvcounts and displs are equal on all
 * ranks, and recvcounts[own rank] == sendcount. */
ncclResult_t rondoAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                             const size_t* recvcounts, const size_t* displs,
                             ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* Reduces sendbuff; rank r receives part r of the result. sendbuff holds the parts back to back in
 * rank order, the sum of recvcounts elements. recvcounts is equal on all ranks. */
ncclResult_t rondoReduceScatterv(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream);

/* The root receives rank r's sendcount elements into part r of recvbuff. recvbuff, recvcounts and
 * displs are used on the root only (NULL is allowed on other ranks). */
ncclResult_t rondoGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                          const size_t* recvcounts, const size_t* displs, ncclDataType_t datatype,
                          int root, ncclComm_t comm, cudaStream_t stream);

/* Rank r receives part r of the root's sendbuff. sendbuff, sendcounts and displs are used on the
 * root only (NULL is allowed on other ranks). */
ncclResult_t rondoScatterv(const void* sendbuff, const size_t* sendcounts, const size_t* displs,
                           void* recvbuff, size_t recvcount, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream);

/* Completes when every rank of comm has entered. */
ncclResult_t rondoBarrier(ncclComm_t comm, cudaStream_t stream);

/* ---- Reductions along a tree of leaves ------------------------------------------------------- */
/* The result is a function of the leaves alone: the same bits for any number of ranks and hosts,
 * any count, and any way in which the ranks share the leaves. A leaf is one contribution, such as
 * the gradient of one micro-batch or the partial product of one block of a matrix. They are the
 * leaves of a balanced binary tree, and every node is op(left, right).
 *
 * leaves: of all ranks together, a power of two, 65536 at most. This rank holds leaves first ..
 * first + n - 1; n may be 0. Together the ranks hold each once, or all get ncclInvalidUsage with
 * the rank and its leaves. sendbuff holds this rank's n leaves one behind the other. ncclAvg
 * divides by `leaves`. In place: recvbuff is where this rank's result would be in its first leaf. A
 * NaN is a NaN; its payload is not defined. On GPUs the bits are those of host memory. There the
 * call waits on the host until all ranks have told each other their leaves, also in a capture, so
 * one thread with several ranks makes their calls in a group. Where a group has such calls of
 * several communicators, their ranks all group them alike.
 *
 * Cost: a rank adds up the subtrees that it holds whole, and sends one sum for each: one if n is a
 * power of two and first a multiple of it, 2 log2(n) at most. */

typedef enum {
  rondoRoundNode = 0, /* every node rounds to the type */
  rondoRoundOnce = 1  /* sums are of a wider float, rounded once at the end: float32 for 16 and 8
                         bits, float64 for float32. Other types as rondoRoundNode */
} rondoRounding_t;

/* A leaf has count elements. */
ncclResult_t rondoAllReduceOrdered(const void* sendbuff, void* recvbuff, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, int leaves, int first,
                                   int n, rondoRounding_t rounding, ncclComm_t comm,
                                   cudaStream_t stream);
/* The same; only the root receives. */
ncclResult_t rondoReduceOrdered(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclRedOp_t op, int root, int leaves,
                                int first, int n, rondoRounding_t rounding, ncclComm_t comm,
                                cudaStream_t stream);
/* A leaf has ranks * recvcount elements; rank r receives part r of what rondoAllReduceOrdered would
 * give. */
ncclResult_t rondoReduceScatterOrdered(const void* sendbuff, void* recvbuff, size_t recvcount,
                                       ncclDataType_t datatype, ncclRedOp_t op, int leaves,
                                       int first, int n, rondoRounding_t rounding, ncclComm_t comm,
                                       cudaStream_t stream);

/* ---- Host streams ---------------------------------------------------------------------------- */
/* A queue of calls that runs on a thread of its own. Calls of one stream finish in call order. The
 * caller must not touch their buffers until the stream is synchronised. Host communicators only. */

typedef struct rondoStream* rondoStream_t;

ncclResult_t rondoStreamCreate(rondoStream_t* stream);
/* Waits for the queued calls, then frees. ncclInvalidArgument for a handle that is not alive. */
ncclResult_t rondoStreamDestroy(rondoStream_t stream);
/* Waits until all calls issued so far have finished. Returns their first error, and clears it. */
ncclResult_t rondoStreamSynchronize(rondoStream_t stream);
/* ncclSuccess: all finished; ncclInProgress: not yet; otherwise the first error, not cleared. */
ncclResult_t rondoStreamQuery(rondoStream_t stream);
/* The same stream as the argument type of nccl.h's functions. */
cudaStream_t rondoStreamHandle(rondoStream_t stream);

/* ---- Requests ---------------------------------------------------------------------------------
 */
/* Completion of an asynchronous operation. Test, Wait and Source may be called from any thread, any
 * number of times, until the request is freed. Freeing a request does not cancel its operation. */

typedef struct rondoRequest* rondoRequest_t;

/* A request that completes when all calls issued to the stream so far have finished. Its result is
 * the first error since the last Record. */
ncclResult_t rondoStreamRecord(rondoStream_t stream, rondoRequest_t* request);
/* ncclInProgress: not yet; otherwise the result. */
ncclResult_t rondoRequestTest(rondoRequest_t request);
/* Waits for the result; ncclInProgress if there is none within `seconds`. */
ncclResult_t rondoRequestWait(rondoRequest_t request, double seconds);
/* Like Wait, but first runs the stream's queued calls on the caller's thread, unless the stream has
 * begun them: microseconds instead of a switch of threads. A call that runs here ends by its
 * communicator's timeout, not after `seconds`. */
ncclResult_t rondoRequestRun(rondoRequest_t request, double seconds);
ncclResult_t rondoRequestFree(rondoRequest_t request);
/* The sending rank of a finished receive; -1 for other requests. */
ncclResult_t rondoRequestSource(rondoRequest_t request, int* rank);
/* Messages only. Ends an unfinished request with ncclTimeout; the error states waitedSeconds and
 * what the request was waiting for. The caller may use the buffer again afterwards. */
ncclResult_t rondoRequestCancel(rondoRequest_t request, double waitedSeconds);

/* ---- Messages with tags ------------------------------------------------------------------------
 */
/* Independent of the collectives of comm: any thread, no group, no stream. Messages of one pair of
 * ranks and one tag arrive in order; different tags match in any order. Sender and receiver give
 * equal sizes in bytes. A send of up to RONDO_EAGER_BYTES completes at once, a longer one when the
 * receiver has received it. */

#define RONDO_ANY_SOURCE -1

/* Collective over comm, before the first message. Further calls do nothing. */
ncclResult_t rondoCommOpenMessages(ncclComm_t comm);
ncclResult_t rondoIsend(const void* buffer, size_t count, ncclDataType_t datatype, int peer,
                        int tag, ncclComm_t comm, rondoRequest_t* request);
ncclResult_t rondoIrecv(void* buffer, size_t count, ncclDataType_t datatype, int peer, int tag,
                        ncclComm_t comm, rondoRequest_t* request);
/* Waits until all sent data has left this process; ncclInProgress if not within `seconds`. */
ncclResult_t rondoCommFlushMessages(ncclComm_t comm, double seconds);

/* ---- Completion queues -------------------------------------------------------------------------
 */
/* Reports requests in the order in which they finish, so that one thread can serve many. */
typedef struct rondoCompletions* rondoCompletions_t;

ncclResult_t rondoCompletionsCreate(rondoCompletions_t* completions);
/* When the request completes, Next returns its token once, to one caller. At most one queue
 * watches a request. Tokens can have any value; they may be equal. */
ncclResult_t rondoCompletionsWatch(rondoCompletions_t completions, rondoRequest_t request,
                                   uint64_t token);
/* Adds a token without a request. */
ncclResult_t rondoCompletionsPost(rondoCompletions_t completions, uint64_t token);
/* ncclInProgress: no token within `seconds`. */
ncclResult_t rondoCompletionsNext(rondoCompletions_t completions, double seconds, uint64_t* token);
ncclResult_t rondoCompletionsDestroy(rondoCompletions_t completions);

/* ---- Options of a communicator ----------------------------------------------------------------
 */

typedef enum {
  rondoDeviceAuto = 0, /* the current CUDA device; the host if there is none */
  rondoDeviceHost = 1, /* host memory */
  rondoDeviceCuda = 2  /* the current CUDA device, or an error */
} rondoDevice_t;

#define RONDO_OPTIONS_MAGIC 0x526f4f70u
#define RONDO_UNDEF_INT INT_MIN
#define RONDO_UNDEF_SECONDS -1.0

/* Start from RONDO_COMM_OPTIONS_INITIALIZER. Undefined fields take the value of their environment
 * variable. All ranks should give equal values; reproducible must be equal. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int device;         /* rondoDevice_t (RONDO_DEVICE) */
  int reproducible;   /* 1: bits depend only on the number of ranks (RONDO_REPRODUCIBLE) */
  double timeout;     /* seconds without progress until a call fails (RONDO_TIMEOUT) */
  double initTimeout; /* seconds in which all ranks must have joined (RONDO_INIT_TIMEOUT) */
} rondoCommOptions_t;

#define RONDO_COMM_OPTIONS_INITIALIZER                                                    \
  {                                                                                       \
    sizeof(rondoCommOptions_t), RONDO_OPTIONS_MAGIC, 1, RONDO_UNDEF_INT, RONDO_UNDEF_INT, \
        RONDO_UNDEF_SECONDS, RONDO_UNDEF_SECONDS                                          \
  }

/* ncclCommInitRankConfig with options; config and options may each be NULL. */
ncclResult_t rondoCommInitRankOptions(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                      ncclConfig_t* config, const rondoCommOptions_t* options);

/* The deadline of calls issued from now on by this rank; seconds > 0, fractions allowed. */
ncclResult_t rondoCommSetTimeout(ncclComm_t comm, double seconds);

/* Runs range(b, e, context) for ranges that cover begin..end, on any threads, and returns when all
 * have returned. It must not throw; its result is ignored. */
typedef void (*rondoRange_t)(int64_t begin, int64_t end, void* context);
typedef int (*rondoParallelFor_t)(int64_t begin, int64_t end, int64_t grain, rondoRange_t range,
                                  void* context);

/* Large copies and sums in host memory run on threads of the program instead of those of
 * RONDO_THREADS. Calls of this thread use parallelFor, and so do calls of streams that this thread
 * runs while it waits for them; all other calls use one thread. NULL: all calls use one thread.
 * torch_parallel_for of PyTorch fits. First waits for the calls of comm that were issued
 * before. */
ncclResult_t rondoCommSetParallelFor(ncclComm_t comm, rondoParallelFor_t parallelFor);

/* On the host, ncclCommCuDevice returns -1, and the byte counts of ncclCommMemStats are 0. */

/* ---- Before there is a communicator -----------------------------------------------------------
 */

/* What the launcher's environment variables tell a process. Set bytes to sizeof(rondoLaunched_t)
 * before the call. */
typedef struct {
  size_t bytes;
  int rank, size;           /* 0 of 1 if no launcher started this process */
  int localRank, localSize; /* on this host; -1: unknown */
  int masterPort;           /* 0: unknown */
  char masterAddr[256];     /* where ranks of several hosts connect to rank 0; "": unknown */
  const char* source; /* the variable with the rank, such as "SLURM_PROCID"; "": no launcher */
} rondoLaunched_t;

/* Knows rondo run and torchrun (RANK), Open MPI, MPICH and Slurm's steps. MASTER_ADDR and
 * MASTER_PORT come from Slurm if they are not set. ncclInvalidUsage: the variables contradict each
 * other. */
ncclResult_t rondoLaunchRead(rondoLaunched_t* launched);

/* The ranks that a launcher started. They can exchange a few bytes without MPI, usually an
 * ncclUniqueId: launch_env.h does it. */
typedef struct rondoLaunch* rondoLaunch_t;

/* Collective over all ranks of the launch. On one host (localSize == size, or -1 and no
 * MASTER_ADDR) they connect over a Unix socket of this user, otherwise at MASTER_ADDR:MASTER_PORT.
 * round: 1 for the first meeting of these ranks, 2 for the next. Every rank proves that it has the
 * job's RONDO_SECRET. Without a secret, any process that knows the launcher's variables can join
 * over the network; a WARN in the log reports this. Data travels in plain text. seconds bounds this
 * call and each exchange. */
ncclResult_t rondoLaunchMeet(rondoLaunch_t* launch, int rank, int size, int localSize,
                             unsigned round, double seconds);

/* Collective. Every rank gives any number of bytes (NULL and 0 are allowed; 64 MiB for all ranks
 * together) and receives those of all ranks back to back in rank order. sizes has room for one
 * number per rank. *all is valid until the next exchange. seconds > 0. */
ncclResult_t rondoLaunchExchange(rondoLaunch_t launch, const void* mine, size_t bytes,
                                 const void** all, size_t* sizes, double seconds);

ncclResult_t rondoLaunchLeave(rondoLaunch_t launch);

/* ---- What happened ----------------------------------------------------------------------------
 */

/* Set size to sizeof(rondoFault_t) before the call. Strings end with a NUL. */
typedef struct {
  size_t size;
  ncclResult_t result; /* ncclSuccess: no fault, the rest is empty */
  int rank;            /* the rank that detected it: this one, or the first peer that reported */
  int culprit;         /* the rank at fault; -1: unknown */
  int reserved;
  char call[192];      /* the failed call, such as "AllReduce(count 4, float32, sum)" */
  char sentence[1024]; /* as ncclGetLastError returns it */
} rondoFault_t;

/* The fault that ended this communicator. Local, does not wait. */
ncclResult_t rondoCommGetFault(ncclComm_t comm, rondoFault_t* fault);

/* The ranks of comm whose processes have ended, ascending. For ranks on this host the call asks the
 * kernel, whether or not a call has failed. Of other hosts it lists only a rank that the fault
 * names as gone. Survivors of a failure pass the list to ncclCommShrink. ranks has room for all
 * ranks of comm. Local, does not wait. */
ncclResult_t rondoCommGetEnded(ncclComm_t comm, int* ranks, int* count);

/* The plan of this rank's last call, for example "twoshot staged 4 rounds"; "" before the first.
 * Writes at most size bytes, including the NUL. */
ncclResult_t rondoGetLastPlan(ncclComm_t comm, char* text, size_t size);

/* How often this process has called a function of nccl.h, in all threads, failed calls included.
 * "ncclAllReduce" counts ncclAllReduce and pncclAllReduce. Exact for calls that happened before
 * this one. A forked process starts with its parent's counts. Lets a program check that its calls
 * reach Rondo. ncclInvalidArgument for other names. */
ncclResult_t rondoGetCallCount(const char* function, uint64_t* calls);

/* Bytes of memory that this communicator holds in this process now, on host and GPU. Shared staging
 * counts once; messages that arrived before their receives count too. Memory of ncclMemAlloc is the
 * program's and does not count. ncclCommMemStats counts the GPU's memory alone. */
ncclResult_t rondoCommMemoryUsed(ncclComm_t comm, size_t* bytes);

/* Zeroed host memory that the processes of this host access in place, whatever device is current:
 * ncclMemAlloc of a rank on the host. Free it by ncclMemFree. */
ncclResult_t rondoMemAllocHost(void** ptr, size_t size);

/* Upper bound, in bytes of data per second, of what this rank's host can send to the other hosts of
 * comm, and of what it can receive from them. It is the sum over its network ports: on IB those
 * that NCCL_IB_HCA admits, otherwise all. Each port counts with its rate, less packet overhead; the
 * ports of one adapter count with their PCI link if that is slower. Taken from the topology (/sys,
 * NCCL_TOPO_FILE), never measured. 0: unknown (no port, or a port of unknown rate), or comm has one
 * host. Local, does not wait. */
ncclResult_t rondoCommNetworkRate(ncclComm_t comm, double* bytesPerSecond);

#ifdef __cplusplus
}
#endif

#endif
