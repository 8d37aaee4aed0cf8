// SPDX-License-Identifier: Apache-2.0
/* launch_env.h: a program's rank and size under any launcher, and a broadcast to its peers.
 *
 * For C and C++ (gnu11 or later, Linux), on top of rondo.h. Supports rondo run and torchrun (RANK,
 * WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), MPICH (PMI_*, MPI_LOCAL*) and Slurm (SLURM_*).
 * rondo_launch_broadcast() sends a few bytes, usually an ncclUniqueId, from rank 0 to the others
 * without MPI: on one host among processes of one user, otherwise over TCP to
 * MASTER_ADDR:MASTER_PORT, which a step of Slurm needs not set (plain text; RONDO_SECRET keeps
 * other processes out). Every wait has a time limit. No files or processes remain.
 *
 *   rondo_launch_t me;
 *   if (rondo_launch_read(&me) < 0) exit(1);                    // the reason was printed
 *   ncclUniqueId id;
 *   if (me.rank == 0) ncclGetUniqueId(&id);
 *   if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0)) exit(1);
 *   ncclCommInitRank(&comm, me.size, id, me.rank);
 */
#ifndef RONDO_LAUNCH_ENV_H_
#define RONDO_LAUNCH_ENV_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rondo.h"

typedef struct {
  int rank, size;             /* 0 of 1 if no launcher started several ranks */
  int local_rank, local_size; /* on this host; -1: not set by the launcher */
  const char* source;         /* "RANK", "OMPI_COMM_WORLD_RANK", ...; "": none is set */
  uint32_t rounds;            /* broadcasts so far */
} rondo_launch_t;

/* 1: launched as one of several; 0: alone; -1: the variables contradict each other (printed). */
static inline int rondo_launch_read(rondo_launch_t* me) {
  rondoLaunched_t launched;
  launched.bytes = sizeof launched;
  me->rank = 0, me->size = 1, me->local_rank = -1, me->local_size = -1;
  me->source = "", me->rounds = 0;
  if (rondoLaunchRead(&launched) != ncclSuccess) {
    fprintf(stderr, "%s\n", ncclGetLastError(NULL));
    return -1;
  }
  me->rank = launched.rank, me->size = launched.size, me->source = launched.source;
  me->local_rank = launched.localRank, me->local_size = launched.localSize;
  return me->size > 1;
}

/* Sends rank 0's bytes to all ranks. Collective. Returns 0, or -1 or an ncclResult_t on failure;
 * all failures except lack of memory are printed. */
static inline int rondo_launch_broadcast(rondo_launch_t* me, void* bytes, size_t size,
                                         double seconds) {
  rondoLaunch_t launch = NULL;
  size_t* sizes = (size_t*)calloc((size_t)me->size, sizeof(size_t));
  const void* all = NULL;
  ncclResult_t result = sizes == NULL ? ncclSystemError : ncclSuccess;
  if (me->size == 1 || sizes == NULL) return free(sizes), (int)result;
  result = rondoLaunchMeet(&launch, me->rank, me->size, me->local_size, ++me->rounds, seconds);
  if (result == ncclSuccess)
    result = rondoLaunchExchange(launch, bytes, me->rank == 0 ? size : 0, &all, sizes, seconds);
  if (result != ncclSuccess) {
    fprintf(stderr, "%s\n", ncclGetLastError(NULL));
  } else if (sizes[0] != size) {
    fprintf(stderr, "rank %d wants %lu bytes of rank 0, which gives %lu\n", me->rank,
            (unsigned long)size, (unsigned long)sizes[0]);
    result = ncclInvalidUsage;
  } else {
    memcpy(bytes, all, size);
  }
  if (launch != NULL) rondoLaunchLeave(launch);
  free(sizes);
  return result == ncclSuccess ? 0 : -1;
}

#endif
