/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that uses only nccl.h: ranks as processes, then all ranks in one thread and one
 * group. client <ranks> Exits 0 if every result is right. It is linked with librondo, our libnccl
 * and NVIDIA's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"

enum { kCount = 1000, kMaxRanks = 8 };

#define CALL(call)                                                                               \
  do {                                                                                           \
    const ncclResult_t result_ = (call);                                                         \
    if (result_ != ncclSuccess) {                                                                \
      fprintf(stderr, "client.c:%d: %s: %s: %s\n", __LINE__, #call, ncclGetErrorString(result_), \
              ncclGetLastError(NULL));                                                           \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "client.c:%d: not so: %s\n", __LINE__, #condition); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

static float* new_floats(int count, float value) {
  void* memory = NULL;
  CALL(ncclMemAlloc(&memory, sizeof(float) * (size_t)count));
  float* floats = memory;
  for (int i = 0; i < count; ++i) floats[i] = value;
  return floats;
}

static void expect_all(const float* floats, int count, float value) {
  for (int i = 0; i < count; ++i) EXPECT(fabsf(floats[i] - value) < 1e-4f);
}

static float sum_to(int n) { return (float)(n * (n + 1)) / 2; }

static void check_collectives(ncclComm_t comm, int rank, int ranks) {
  const float mine = (float)(rank + 1);
  float* in = new_floats(kCount * ranks, mine);
  float* out = new_floats(kCount * ranks, -1);
  const int root = ranks - 1;

  CALL(ncclAllReduce(in, out, kCount, ncclFloat32, ncclSum, comm, NULL));
  expect_all(out, kCount, sum_to(ranks));
  CALL(ncclAllReduce(in, out, kCount, ncclFloat32, ncclAvg, comm, NULL));
  expect_all(out, kCount, sum_to(ranks) / (float)ranks);
  ncclCollConfig_t options = NCCL_COLLCONFIG_INITIALIZER;
  CALL(ncclAllReduceConfig(in, out, kCount, ncclFloat32, ncclMax, comm, NULL, &options));
  expect_all(out, kCount, (float)ranks);

  CALL(ncclBroadcast(in, out, kCount, ncclFloat32, root, comm, NULL));
  expect_all(out, kCount, (float)ranks);
  CALL(ncclReduce(in, out, kCount, ncclFloat32, ncclSum, root, comm, NULL));
  if (rank == root) expect_all(out, kCount, sum_to(ranks));
  CALL(ncclReduceScatter(in, out, kCount, ncclFloat32, ncclSum, comm, NULL));
  expect_all(out, kCount, sum_to(ranks));
  CALL(ncclAllGather(in, out, kCount, ncclFloat32, comm, NULL));
  for (int r = 0; r < ranks; ++r) expect_all(out + r * kCount, kCount, (float)(r + 1));
  CALL(ncclAlltoAll(in, out, kCount, ncclFloat32, comm, NULL));
  for (int r = 0; r < ranks; ++r) expect_all(out + r * kCount, kCount, (float)(r + 1));
  CALL(ncclGather(in, out, kCount, ncclFloat32, root, comm, NULL));
  if (rank == root)
    for (int r = 0; r < ranks; ++r) expect_all(out + r * kCount, kCount, (float)(r + 1));
  CALL(ncclScatter(in, out, kCount, ncclFloat32, root, comm, NULL));
  expect_all(out, kCount, (float)ranks);

  /* An operation with a factor may be destroyed before the call has finished. */
  float half = 0.5f;
  ncclRedOp_t scaled;
  CALL(ncclRedOpCreatePreMulSum(&scaled, &half, ncclFloat32, ncclScalarHostImmediate, comm));
  CALL(ncclAllReduce(in, out, kCount, ncclFloat32, scaled, comm, NULL));
  CALL(ncclRedOpDestroy(scaled, comm));
  expect_all(out, kCount, sum_to(ranks) / 2);

  /* A ring of messages. */
  CALL(ncclGroupStart());
  CALL(ncclSend(in, kCount, ncclFloat32, (rank + 1) % ranks, comm, NULL));
  CALL(ncclRecv(out, kCount, ncclFloat32, (rank + ranks - 1) % ranks, comm, NULL));
  CALL(ncclGroupEnd());
  expect_all(out, kCount, (float)((rank + ranks - 1) % ranks + 1));

  void* handle = NULL;
  CALL(ncclCommRegister(comm, in, sizeof(float) * kCount, &handle));
  CALL(ncclCommDeregister(comm, handle));
  CALL(ncclBcast(in, kCount, ncclFloat32, 0, comm, NULL));
  expect_all(in, kCount, 1);
  CALL(ncclMemFree(in));
  CALL(ncclMemFree(out));
}

static void check_questions(ncclComm_t comm, int rank, int ranks) {
  int version = 0, count = 0, own = -1, device = 0;
  uint64_t bytes = 0;
  ncclResult_t state = ncclInternalError;
  CALL(ncclGetVersion(&version));
  EXPECT(version >= NCCL_VERSION(2, 18, 0));
  CALL(ncclCommCount(comm, &count));
  CALL(ncclCommUserRank(comm, &own));
  CALL(ncclCommCuDevice(comm, &device));
  CALL(ncclCommGetAsyncError(comm, &state));
  CALL(ncclCommMemStats(comm, ncclStatGpuMemTotal, &bytes));
  EXPECT(count == ranks && own == rank && state == ncclSuccess);
  EXPECT(ncclAllReduce(NULL, NULL, 1, ncclFloat32, ncclSum, NULL, NULL) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(NULL), "comm argument is NULL") != NULL);
  EXPECT(ncclGroupEnd() == ncclInvalidUsage);
}

static void check_children(ncclComm_t comm, int rank, int ranks) {
  ncclComm_t child = NULL;
  CALL(ncclCommSplit(comm, rank % 2, -rank, &child, NULL));
  int count = 0, own = -1;
  CALL(ncclCommCount(child, &count));
  CALL(ncclCommUserRank(child, &own));
  EXPECT(count == (rank % 2 == 0 ? (ranks + 1) / 2 : ranks / 2));
  EXPECT(own == count - 1 - rank / 2); /* keys decrease with the rank */
  int one = 1, sum = 0;
  CALL(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, child, NULL));
  EXPECT(sum == count);
  CALL(ncclCommDestroy(child));
}

static int run_rank(const int* from_first, const int* to_others, int rank, int ranks) {
  ncclUniqueId id;
  if (rank == 0) {
    CALL(ncclGetUniqueId(&id));
    for (int r = 1; r < ranks; ++r) EXPECT(write(to_others[r], &id, sizeof(id)) == sizeof(id));
  } else {
    EXPECT(read(from_first[rank], &id, sizeof(id)) == sizeof(id));
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = NULL;
  CALL(ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
  check_questions(comm, rank, ranks);
  check_collectives(comm, rank, ranks);
  check_children(comm, rank, ranks);
  CALL(ncclCommFinalize(comm));
  CALL(ncclCommDestroy(comm));
  EXPECT(ncclCommDestroy(comm) == ncclInvalidArgument);
  return 0;
}

/* All ranks in this thread, which is possible only in a group. */
static void check_one_process(int ranks) {
  ncclComm_t comms[kMaxRanks];
  int values[kMaxRanks], sums[kMaxRanks];
  CALL(ncclCommInitAll(comms, ranks, NULL));
  CALL(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) {
    values[r] = r + 1;
    CALL(ncclAllReduce(&values[r], &sums[r], 1, ncclInt32, ncclSum, comms[r], NULL));
  }
  CALL(ncclGroupEnd());
  for (int r = 0; r < ranks; ++r) EXPECT(sums[r] == ranks * (ranks + 1) / 2);
  for (int r = 0; r < ranks; ++r) CALL(ncclCommAbort(comms[r]));
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2;
  int readers[kMaxRanks], writers[kMaxRanks], failed = 0;
  EXPECT(ranks >= 2 && ranks <= kMaxRanks);
  for (int r = 1; r < ranks; ++r) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    readers[r] = ends[0], writers[r] = ends[1];
  }
  for (int r = 0; r < ranks; ++r)
    if (fork() == 0) _exit(run_rank(readers, writers, r, ranks));
  for (int status = 0; wait(&status) > 0;) failed |= status != 0;
  if (!failed) check_one_process(ranks);
  if (!failed) printf("client: %d ranks, all results are right\n", ranks);
  return failed;
}
