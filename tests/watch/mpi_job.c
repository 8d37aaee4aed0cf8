// SPDX-License-Identifier: Apache-2.0
// An MPI program without MPI's header, which packages of its libraries do not have: with OPEN_MPI
// for the binary interface of Open MPI, else for that of MPICH. Checks its results.
//   mpi_job FILE         rank 1 makes the last all-reduce when FILE is there
//   mpi_job FILE message first receives a message of rank 0 when FILE is there
//   mpi_job FILE ring    first exchanges messages with both neighbours when FILE is there
//   mpi_job --calls N prints the median time of an all-reduce of 16 bytes, of N times 100
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef OPEN_MPI
typedef void* Handle;
extern char ompi_mpi_comm_world[], ompi_mpi_float[], ompi_mpi_op_sum[];
#define WORLD ((Handle)ompi_mpi_comm_world)
#define FLOAT ((Handle)ompi_mpi_float)
#define SUM ((Handle)ompi_mpi_op_sum)
#else
typedef int Handle;
#define WORLD 0x44000000
#define FLOAT 0x4c00040a
#define SUM 0x58000003
#endif

int MPI_Init(int* argc, char*** argv);
int MPI_Finalize(void);
int MPI_Comm_rank(Handle comm, int* rank);
int MPI_Comm_size(Handle comm, int* size);
int MPI_Comm_split(Handle comm, int colour, int key, Handle* made);
int MPI_Comm_free(Handle* comm);
int MPI_Allreduce(const void* send, void* receive, int count, Handle type, Handle op, Handle comm);
int MPI_Bcast(void* data, int count, Handle type, int root, Handle comm);
int MPI_Barrier(Handle comm);
int MPI_Send(const void* data, int count, Handle type, int peer, int tag, Handle comm);
int MPI_Ssend(const void* data, int count, Handle type, int peer, int tag, Handle comm);
int MPI_Recv(void* data, int count, Handle type, int peer, int tag, Handle comm, void* status);
int MPI_Isend(const void* data, int count, Handle type, int peer, int tag, Handle comm,
              void* request);
int MPI_Wait(void* request, void* status);
int MPI_Sendrecv(const void* data, int count, Handle type, int to, int tag, void* into, int room,
                 Handle room_type, int from, int from_tag, Handle comm, void* status);

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// In microseconds a call.
static double median_time(int batches, Handle comm) {
  enum { kCalls = 100 };
  double* const times = calloc((size_t)batches + 1, sizeof *times);
  float one[4] = {1, 1, 1, 1}, sum[4];
  for (int batch = 0; batch < batches; ++batch) {
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int i = 0; i < kCalls; ++i) MPI_Allreduce(one, sum, 4, FLOAT, SUM, comm);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    times[batch] = ((double)(ended.tv_sec - began.tv_sec) * 1e6 +
                    (double)(ended.tv_nsec - began.tv_nsec) * 1e-3) /
                   kCalls;
  }
  qsort(times, (size_t)batches, sizeof *times, by_size);
  const double median = times[batches / 2];
  free(times);
  return median;
}

static void wait_for(const char* file) {
  while (access(file, F_OK) != 0) usleep(10000);
}

// Rank 1 takes these messages by calls that are watched, and rank 0 gives all but the last one by
// others.
static void pass_messages(int rank, const char* file) {
  float data[4] = {1, 2, 3, 4};
  int status[16];
  for (int i = 0; i < 3; ++i) {
    Handle request;
    if (rank == 0) MPI_Isend(data, 4, FLOAT, 1, i, WORLD, &request), MPI_Wait(&request, status);
    if (rank == 1) MPI_Recv(data, 4, FLOAT, 0, i, WORLD, status);
  }
  if (rank == 0) MPI_Ssend(data, 4, FLOAT, 1, 9, WORLD);
  if (rank != 1) return;
  wait_for(file);
  MPI_Recv(data, 4, FLOAT, 0, 9, WORLD, status);
}

static void pass_around(int rank, int size, const char* file) {
  const float own = (float)rank;
  float got = -1;
  int status[16];
  const int before = (rank + size - 1) % size;
  if (rank == 1) wait_for(file);
  MPI_Sendrecv(&own, 1, FLOAT, (rank + 1) % size, 5, &got, 1, FLOAT, before, 5, WORLD, status);
  if (got != (float)before) abort();
}

int main(int argc, char** argv) {
  int rank = 0, size = 0, status[16];
  float one[4] = {1, 1, 1, 1}, sum[4] = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(WORLD, &rank);
  MPI_Comm_size(WORLD, &size);
  if (argc == 3 && strcmp(argv[1], "--calls") == 0) {
    const double median = median_time(atoi(argv[2]), WORLD);
    if (rank == 0) printf("%.3f us\n", median);
    MPI_Finalize();
    return 0;
  }
  Handle all;
  MPI_Comm_split(WORLD, 0, rank, &all);
  for (int i = 0; i < 100; ++i) MPI_Allreduce(one, sum, 4, FLOAT, SUM, all);
  MPI_Bcast(one, 4, FLOAT, 0, all);
  if (argc == 3 && strcmp(argv[2], "message") == 0) pass_messages(rank, argv[1]);
  if (argc == 3 && strcmp(argv[2], "ring") == 0) pass_around(rank, size, argv[1]);
  if (rank == 1) wait_for(argv[1]);
  MPI_Allreduce(one, sum, 4, FLOAT, SUM, all);
  if (rank == 0) MPI_Send(sum, 4, FLOAT, 1, 7, WORLD);
  if (rank == 1) MPI_Recv(sum, 4, FLOAT, 0, 7, WORLD, status);
  const int wrong = sum[3] != (float)size;
  MPI_Barrier(WORLD);
  MPI_Comm_free(&all);
  MPI_Finalize();
  if (rank == 0 && !wrong) puts("all right");
  return wrong;
}
