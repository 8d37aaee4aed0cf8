/* rondo.h: what Rondo offers beyond nccl.h, in C.
 *
 * Every function returns an ncclResult_t; the sentence that explains a failure is in
 * ncclGetLastError(). Counts and displacements are elements of datatype, times are seconds, sizes
 * are bytes. A buffer of more than 2^48 bytes and a time that is NaN are ncclInvalidArgument. The
 * collectives take part in groups (ncclGroupStart/End), obey the ordering rule of nccl.h and accept
 * a NULL stream or one made by rondoStreamCreate. Example: sum with XOR, on a queue beside the
 * caller.
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

/* "0.1.0": the version of Rondo itself; static, never NULL. */
const char* rondoGetVersion(void);

/* ---- Element types and reductions ------------------------------------------------------------ */

#define rondoInt16 ((ncclDataType_t)64)
#define rondoUint16 ((ncclDataType_t)65)

/* Bitwise and, or, exclusive or: for the integer types; ncclInvalidArgument for others. */
#define rondoBand ((ncclRedOp_t)0x7ffffff0)
#define rondoBor ((ncclRedOp_t)0x7ffffff1)
#define rondoBxor ((ncclRedOp_t)0x7ffffff2)

/* ---- Collectives with a count per rank ------------------------------------------------------- */
/* Arrays have one entry per rank of comm and are read before the call returns. Part r of a buffer
 * starts at displacement [r] and has count [r] elements; parts of a receive buffer must not
 * overlap. Where two ranks disagree about the count between them, both get ncclInvalidUsage with
 * the two numbers, and nothing beyond a buffer is touched. Never in place. */

/* Sends part r of sendbuff to rank r; what rank r sends arrives in part r of recvbuff. */
ncclResult_t rondoAllToAllv(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                            void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* Every rank gets the sendcount elements of every rank; recvcounts and displs are equal on all
 * ranks and recvcounts[own rank] == sendcount. */
ncclResult_t rondoAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                             const size_t* recvcounts, const size_t* displs,
                             ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/* Reduces sendbuff (the sum of recvcounts elements, parts back to back in rank order); rank r gets
 * part r. recvcounts is equal on all ranks. */
ncclResult_t rondoReduceScatterv(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream);

/* The root gets rank r's sendcount elements as part r of recvbuff. recvbuff, recvcounts and displs
 * matter on the root only (elsewhere NULL is fine). */
ncclResult_t rondoGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                          const size_t* recvcounts, const size_t* displs, ncclDataType_t datatype,
                          int root, ncclComm_t comm, cudaStream_t stream);

/* Rank r gets part r of the root's sendbuff. sendbuff, sendcounts and displs matter on the root
 * only (elsewhere NULL is fine). */
ncclResult_t rondoScatterv(const void* sendbuff, const size_t* sendcounts, const size_t* displs,
                           void* recvbuff, size_t recvcount, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream);

/* Status when every rank of comm has entered. */
ncclResult_t rondoBarrier(ncclComm_t comm, cudaStream_t stream);

/* ---- Host streams ---------------------------------------------------------------------------- */
/* A queue of calls that runs beside the caller. Calls of one stream finish in call order; buffers
 * belong to the library until the stream has been synchronised. Host communicators only. */

typedef struct rondoStream* rondoStream_t;

ncclResult_t rondoStreamCreate(rondoStream_t* stream);
/* Waits for what is queued, then frees. ncclInvalidArgument for a handle that is not alive. */
ncclResult_t rondoStreamDestroy(rondoStream_t stream);
/* Waits until all calls issued so far are finished; returns the first error among them, once. */
ncclResult_t rondoStreamSynchronize(rondoStream_t stream);
/* ncclSuccess: all finished; ncclInProgress: not yet; otherwise the first error, not consumed. */
ncclResult_t rondoStreamQuery(rondoStream_t stream);
/* The same stream in the shape that nccl.h's functions take. */
cudaStream_t rondoStreamHandle(rondoStream_t stream);

/* ---- Requests ---------------------------------------------------------------------------------
 */
/* The end of something that runs beside the caller. Test, Wait and Source may be called from any
 * thread, again and again, until the request is freed; freeing does not end what it stands for. */

typedef struct rondoRequest* rondoRequest_t;

/* A request that is done when all that the stream was given so far is done; its result is the first
 * error since the last Record. */
ncclResult_t rondoStreamRecord(rondoStream_t stream, rondoRequest_t* request);
/* ncclInProgress: not yet; otherwise the result. */
ncclResult_t rondoRequestTest(rondoRequest_t request);
/* The result, once it is there; ncclInProgress where it was not within `seconds`. */
ncclResult_t rondoRequestWait(rondoRequest_t request, double seconds);
ncclResult_t rondoRequestFree(rondoRequest_t request);
/* Of a finished receive: the rank whose message it was; otherwise -1. */
ncclResult_t rondoRequestSource(rondoRequest_t request, int* rank);
/* Messages only: ends the request if it is not finished, with an error (ncclTimeout) that says
 * after how many seconds and for what it was waiting. Its buffer is the caller's again. */
ncclResult_t rondoRequestCancel(rondoRequest_t request, double waitedSeconds);

/* ---- Messages with tags ------------------------------------------------------------------------
 */
/* Beside the collectives of comm, and independent of them: any thread, no group, no stream.
 * Messages of one pair and tag stay in order, tags match in any order. Sender and receiver give
 * equal sizes in bytes. A send of up to RONDO_EAGER_BYTES is complete at once, a longer one when
 * its receiver has taken it. */

#define RONDO_ANY_SOURCE -1

/* Collective over comm, once, before the first message; again: nothing happens. */
ncclResult_t rondoCommOpenMessages(ncclComm_t comm);
ncclResult_t rondoIsend(const void* buffer, size_t count, ncclDataType_t datatype, int peer,
                        int tag, ncclComm_t comm, rondoRequest_t* request);
ncclResult_t rondoIrecv(void* buffer, size_t count, ncclDataType_t datatype, int peer, int tag,
                        ncclComm_t comm, rondoRequest_t* request);
/* Waits until what was sent has left this process; ncclInProgress where it has not. */
ncclResult_t rondoCommFlushMessages(ncclComm_t comm, double seconds);

/* ---- Completion queues -------------------------------------------------------------------------
 */
/* Finished requests, in the order in which they finish, for one thread that acts on many. */
typedef struct rondoCompletions* rondoCompletions_t;

ncclResult_t rondoCompletionsCreate(rondoCompletions_t* completions);
/* Once the request is done, Next returns its token: once, to one caller. A request is watched by
 * one queue at most. Any tokens may be used, also equal ones. */
ncclResult_t rondoCompletionsWatch(rondoCompletions_t completions, rondoRequest_t request,
                                   uint64_t token);
/* Adds a token by hand. */
ncclResult_t rondoCompletionsPost(rondoCompletions_t completions, uint64_t token);
/* ncclInProgress: nothing finished within `seconds`. */
ncclResult_t rondoCompletionsNext(rondoCompletions_t completions, double seconds, uint64_t* token);
ncclResult_t rondoCompletionsDestroy(rondoCompletions_t completions);

/* ---- Options of a communicator ----------------------------------------------------------------
 */

typedef enum {
  rondoDeviceAuto = 0, /* the current CUDA device; the host where there is none */
  rondoDeviceHost = 1, /* host memory */
  rondoDeviceCuda = 2  /* the current CUDA device, or an error */
} rondoDevice_t;

#define RONDO_OPTIONS_MAGIC 0x526f4f70u
#define RONDO_UNDEF_INT INT_MIN
#define RONDO_UNDEF_SECONDS -1.0

/* Start from RONDO_COMM_OPTIONS_INITIALIZER. What is undefined comes from the environment variable
 * of that name. All ranks should agree; reproducible must. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int device;         /* rondoDevice_t (RONDO_DEVICE) */
  int reproducible;   /* 1: bits depend on the number of ranks alone (RONDO_REPRODUCIBLE) */
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

/* On the host ncclCommCuDevice says -1, and ncclCommMemStats counts host memory. */

/* ---- Before there is a communicator -----------------------------------------------------------
 */

/* The ranks that a launcher started, who can exchange a few bytes without MPI: usually an
 * ncclUniqueId. launch_env.h knows the launchers and calls these. */
typedef struct rondoLaunch* rondoLaunch_t;

/* Collective over all ranks of the launch, which meet over a Unix socket of this user where all are
 * on one host (localSize == size, or -1 and no MASTER_ADDR), otherwise at MASTER_ADDR:MASTER_PORT.
 * round: 1 for their first meeting, 2 for the next one. Every rank proves that it has the job's
 * RONDO_SECRET; without one, strangers who know the launcher's variables can take part over the
 * network, and a WARN of the log says so. What is exchanged travels in plain text. seconds bounds
 * this call and each exchange. */
ncclResult_t rondoLaunchMeet(rondoLaunch_t* launch, int rank, int size, int localSize,
                             unsigned round, double seconds);

/* Collective: every rank gives bytes (as many as it likes, NULL and 0 too; 64 MiB all together) and
 * gets those of all ranks back to back in rank order; sizes has room for one number a rank. *all
 * lives until the next exchange. seconds > 0. */
ncclResult_t rondoLaunchExchange(rondoLaunch_t launch, const void* mine, size_t bytes,
                                 const void** all, size_t* sizes, double seconds);

ncclResult_t rondoLaunchLeave(rondoLaunch_t launch);

/* ---- What happened ----------------------------------------------------------------------------
 */

/* Set size to sizeof(rondoFault_t) before the call. Texts end with a NUL. */
typedef struct {
  size_t size;
  ncclResult_t result; /* ncclSuccess: no fault, the rest is empty */
  int rank;            /* the rank that saw it (this one, or the peer whose report came first) */
  int culprit;         /* the rank at fault; -1 where none can be named */
  int reserved;
  char call[192];      /* the call in which it was seen: "AllReduce(count 4, float32, sum)" */
  char sentence[1024]; /* what ncclGetLastError says about it */
} rondoFault_t;

/* The fault that ended this communicator. Local, does not wait. */
ncclResult_t rondoCommGetFault(ncclComm_t comm, rondoFault_t* fault);

/* The ranks of comm that have ended, ascending: on this host the kernel is asked now, whether or
 * not a call has failed; of other hosts, a rank that the fault blames for being gone. This is what
 * the survivors of a failure give to ncclCommShrink. ranks has room for all ranks of comm. Local,
 * does not wait. */
ncclResult_t rondoCommGetEnded(ncclComm_t comm, int* ranks, int* count);

/* How this rank's last call was run, for example "twoshot staged 4 rounds"; "" before the first.
 * Writes at most size bytes with the closing NUL. */
ncclResult_t rondoGetLastPlan(ncclComm_t comm, char* text, size_t size);

/* How often this process has called a function of nccl.h so far, by any thread and whatever came of
 * it: "ncclAllReduce" counts ncclAllReduce and pncclAllReduce. Exact for calls that happened before
 * this one; a process that was forked begins with the counts of its parent. What a program that
 * should run on Rondo compares with the calls that it made. ncclInvalidArgument for other names. */
ncclResult_t rondoGetCallCount(const char* function, uint64_t* calls);

/* Bytes of memory that this communicator holds in this process now: shared staging once, messages
 * that have come before their receives too. ncclMemAlloc gives memory to the program: it does not
 * count. */
ncclResult_t rondoCommMemoryUsed(ncclComm_t comm, size_t* bytes);

/* Bytes of data a second that this rank's host can send to the other hosts of comm, and take from
 * them, at most: its network ports together, those that NCCL_IB_HCA admits where the network is IB,
 * else all of them. Each port counts with its rate, the ports of one adapter with their PCI link
 * where that is slower, less what packets take. From the topology (/sys, NCCL_TOPO_FILE), never
 * measured. 0: not known, as there is no port or the rate of one is not known; or comm has one
 * host. Local, does not wait. */
ncclResult_t rondoCommNetworkRate(ncclComm_t comm, double* bytesPerSecond);

#ifdef __cplusplus
}
#endif

#endif
