// SPDX-License-Identifier: Apache-2.0
// librondo-watch-mpi.so, for LD_PRELOAD: the blocking calls of MPI, each reported when it begins
// and when it ends, around the program's own MPI (MPI's profiling interface, MPI 4.1, section
// 15.2). Serves every MPI whose functions are in a shared library: events.h.
//
// Calls that return before they are over are not reported, nor what waits for them.
// Counts that ranks may give differently are reported as 0.
#include <stddef.h>

#include "api/watch/mpi/events.h"

#pragma GCC visibility push(default)  // plain C: nothing is thrown

// ---- begin, end, communicators ----

int MPI_Init(int* argc, char*** argv) {
  const int result = ((int (*)(int*, char***))mpi_function("PMPI_Init"))(argc, argv);
  if (result == 0) begin_watch();
  return result;
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int result = ((int (*)(int*, char***, int, int*))mpi_function("PMPI_Init_thread"))(
      argc, argv, required, provided);
  if (result == 0) begin_watch();
  return result;
}
int MPI_Finalize(void) {
  end_watch();
  return ((int (*)(void))mpi_function("PMPI_Finalize"))();
}

// The last argument is the new communicator.
#define MAKES_COMMUNICATOR(name, types, values, made)                     \
  int MPI_##name types {                                                  \
    const int result = ((int(*) types)mpi_function("PMPI_" #name))values; \
    if (result == 0) add_communicator(made);                              \
    return result;                                                        \
  }
MAKES_COMMUNICATOR(Comm_dup, (Any old, Any* made), (old, made), made)
MAKES_COMMUNICATOR(Comm_dup_with_info, (Any old, Any info, Any* made), (old, info, made), made)
MAKES_COMMUNICATOR(Comm_create, (Any old, Any group, Any* made), (old, group, made), made)
MAKES_COMMUNICATOR(Comm_create_group, (Any old, Any group, int tag, Any* made),
                   (old, group, tag, made), made)
MAKES_COMMUNICATOR(Comm_split, (Any old, int colour, int key, Any* made), (old, colour, key, made),
                   made)
MAKES_COMMUNICATOR(Comm_split_type, (Any old, int kind, int key, Any info, Any* made),
                   (old, kind, key, info, made), made)
typedef const int* Ints;
MAKES_COMMUNICATOR(Cart_create, (Any old, int n, Ints sizes, Ints periods, int reorder, Any* made),
                   (old, n, sizes, periods, reorder, made), made)
MAKES_COMMUNICATOR(Cart_sub, (Any old, Ints kept, Any* made), (old, kept, made), made)
MAKES_COMMUNICATOR(Graph_create, (Any old, int n, Ints index, Ints edges, int reorder, Any* made),
                   (old, n, index, edges, reorder, made), made)
MAKES_COMMUNICATOR(Dist_graph_create,
                   (Any old, int n, Ints from, Ints degrees, Ints to, Ints weights, Any info,
                    int reorder, Any* made),
                   (old, n, from, degrees, to, weights, info, reorder, made), made)
MAKES_COMMUNICATOR(Dist_graph_create_adjacent,
                   (Any old, int in, Ints from, Ints weights_in, int out, Ints to, Ints weights_out,
                    Any info, int reorder, Any* made),
                   (old, in, from, weights_in, out, to, weights_out, info, reorder, made), made)
MAKES_COMMUNICATOR(Intercomm_merge, (Any old, int high, Any* made), (old, high, made), made)
int MPI_Comm_free(Any* communicator) {
  drop_communicator(communicator);
  return ((int (*)(Any*))mpi_function("PMPI_Comm_free"))(communicator);
}

// ---- calls ----

#define REPORTED(name, types, values, event) REPORTED_BOTH(name, types, values, event, NULL)
// Calls with two events.
#define REPORTED_BOTH(name, types, values, event, other)            \
  int MPI_##name types {                                            \
    static int(*own) types;                                         \
    int(*function) types = __atomic_load_n(&own, __ATOMIC_RELAXED); \
    if (function == NULL) {                                         \
      function = (int(*) types)mpi_function("PMPI_" #name);         \
      __atomic_store_n(&own, function, __ATOMIC_RELAXED);           \
    }                                                               \
    const Event entered = event, also = other;                      \
    const int result = function values;                             \
    leave(also);                                                    \
    leave(entered);                                                 \
    return result;                                                  \
  }

REPORTED(Barrier, (Any comm), (comm), enter_collective("Barrier", comm, 0, NULL, -1))
REPORTED(Bcast, (Any data, int count, Any type, int root, Any comm),
         (data, count, type, root, comm), enter_collective("Broadcast", comm, count, type, root))
REPORTED(Allreduce, (const void* send, void* receive, int count, Any type, Any op, Any comm),
         (send, receive, count, type, op, comm),
         enter_collective("AllReduce", comm, count, type, -1))
REPORTED(Reduce, (const void* send, void* receive, int count, Any type, Any op, int root, Any comm),
         (send, receive, count, type, op, root, comm),
         enter_collective("Reduce", comm, count, type, root))
REPORTED(Reduce_scatter_block,
         (const void* send, void* receive, int count, Any type, Any op, Any comm),
         (send, receive, count, type, op, comm),
         enter_collective("ReduceScatter", comm, count, type, -1))
REPORTED(Reduce_scatter,
         (const void* send, void* receive, const int* counts, Any type, Any op, Any comm),
         (send, receive, counts, type, op, comm),
         enter_collective("ReduceScatter", comm, 0, type, -1))

#define TWO_SIDES const void *send, int sent, Any sent_type, void *receive, int received, Any type
#define BOTH_SIDES send, sent, sent_type, receive, received, type
REPORTED(Allgather, (TWO_SIDES, Any comm), (BOTH_SIDES, comm),
         enter_collective("AllGather", comm, received, type, -1))
REPORTED(Alltoall, (TWO_SIDES, Any comm), (BOTH_SIDES, comm),
         enter_collective("AlltoAll", comm, received, type, -1))
REPORTED(Gather, (TWO_SIDES, int root, Any comm), (BOTH_SIDES, root, comm),
         enter_collective("Gather", comm, 0, type, root))
REPORTED(Scatter, (TWO_SIDES, int root, Any comm), (BOTH_SIDES, root, comm),
         enter_collective("Scatter", comm, 0, type, root))

REPORTED(Allgatherv,
         (const void* send, int sent, Any sent_type, void* receive, Ints counts, Ints at, Any type,
          Any comm),
         (send, sent, sent_type, receive, counts, at, type, comm),
         enter_collective("AllGather", comm, 0, type, -1))
REPORTED(Gatherv,
         (const void* send, int sent, Any sent_type, void* receive, Ints counts, Ints at, Any type,
          int root, Any comm),
         (send, sent, sent_type, receive, counts, at, type, root, comm),
         enter_collective("Gather", comm, 0, type, root))
REPORTED(Scatterv,
         (const void* send, Ints counts, Ints at, Any sent_type, void* receive, int received,
          Any type, int root, Any comm),
         (send, counts, at, sent_type, receive, received, type, root, comm),
         enter_collective("Scatter", comm, 0, type, root))
REPORTED(Alltoallv,
         (const void* send, Ints sent, Ints from, Any sent_type, void* receive, Ints received,
          Ints to, Any type, Any comm),
         (send, sent, from, sent_type, receive, received, to, type, comm),
         enter_collective("AlltoAll", comm, 0, type, -1))
typedef const Any* Types;
REPORTED(Alltoallw,
         (const void* send, Ints sent, Ints from, Types sent_types, void* receive, Ints received,
          Ints to, Types types, Any comm),
         (send, sent, from, sent_types, receive, received, to, types, comm),
         enter_collective("AlltoAll", comm, 0, NULL, -1))

REPORTED(Send, (const void* data, int count, Any type, int peer, int tag, Any comm),
         (data, count, type, peer, tag, comm), enter_message("MPI_Send", comm, count, type, peer))
REPORTED(Ssend, (const void* data, int count, Any type, int peer, int tag, Any comm),
         (data, count, type, peer, tag, comm), enter_message("MPI_Send", comm, count, type, peer))
REPORTED(Recv, (void* data, int count, Any type, int peer, int tag, Any comm, void* status),
         (data, count, type, peer, tag, comm, status),
         enter_message("MPI_Recv", comm, count, type, peer))
REPORTED(Rsend, (const void* data, int count, Any type, int peer, int tag, Any comm),
         (data, count, type, peer, tag, comm), enter_message("MPI_Send", comm, count, type, peer))
REPORTED(Probe, (int peer, int tag, Any comm, void* status), (peer, tag, comm, status),
         enter_message("MPI_Recv", comm, 0, NULL, peer))
REPORTED(Mprobe, (int peer, int tag, Any comm, void* message, void* status),
         (peer, tag, comm, message, status), enter_message("MPI_Recv", comm, 0, NULL, peer))
REPORTED_BOTH(Sendrecv,
              (const void* data, int count, Any type, int to, int tag, void* into, int room,
               Any room_type, int from, int from_tag, Any comm, void* status),
              (data, count, type, to, tag, into, room, room_type, from, from_tag, comm, status),
              enter_message("MPI_Send", comm, count, type, to),
              enter_message("MPI_Recv", comm, room, room_type, from))
REPORTED_BOTH(Sendrecv_replace,
              (void* data, int count, Any type, int to, int tag, int from, int from_tag, Any comm,
               void* status),
              (data, count, type, to, tag, from, from_tag, comm, status),
              enter_message("MPI_Send", comm, count, type, to),
              enter_message("MPI_Recv", comm, count, type, from))

#pragma GCC visibility pop
