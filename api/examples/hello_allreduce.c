/* SPDX-License-Identifier: Apache-2.0 */
/* hello_allreduce: the smallest program. Every rank contributes its number; all receive the sum.
 *
 *   rondo run -n 4 -- hello_allreduce          (torchrun, mpirun and srun start it as well)
 */
#include <stdio.h>

#include "launch_env.h"
#include "nccl.h"

#define COUNT 4

/* Returns 1 if the call succeeded; otherwise prints what failed and why, and returns 0. */
static int ok(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return 1;
  fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  return 0;
}

int main(void) {
  /* Reads RANK and WORLD_SIZE, or the variables that mpirun and srun set instead. */
  rondo_launch_t me;
  if (rondo_launch_read(&me) < 0) return 1;

  /* Rank 0 creates the id of the communicator and sends it to the other ranks. */
  ncclUniqueId id;
  if (me.rank == 0 && !ok(ncclGetUniqueId(&id), "ncclGetUniqueId")) return 1;
  if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0) != 0) return 1;

  ncclComm_t comm;
  if (!ok(ncclCommInitRank(&comm, me.size, id, me.rank), "ncclCommInitRank")) return 1;

  /* Without a stream the call is complete when it returns. */
  float values[COUNT];
  for (int i = 0; i < COUNT; ++i) values[i] = (float)me.rank;
  if (!ok(ncclAllReduce(values, values, COUNT, ncclFloat32, ncclSum, comm, NULL), "ncclAllReduce"))
    return 1;

  const float expected = 0.5f * (float)(me.size * (me.size - 1));
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += values[i] != expected;
  printf("rank %d of %d: the sum of all ranks is %g%s\n", me.rank, me.size, (double)values[0],
         wrong ? " - wrong" : "");
  return !ok(ncclCommDestroy(comm), "ncclCommDestroy") || wrong != 0;
}
