// SPDX-License-Identifier: Apache-2.0
// The MPI side of bench/compare.sh; compiled once for each MPI. Argument: the group's folder.
#include <mpi.h>

#include "bench/compare/loop.h"

namespace {

struct Mpi {
  float* allocate(std::size_t bytes) { return compare::allocate_plain(bytes); }
  void release(float* memory) { std::free(memory); }

  void calls(const compare::Task& task, int count) {
    for (int i = 0; i < count; ++i) call(task);
  }

  void call(const compare::Task& t) {
    using compare::Operation;
    const int n = static_cast<int>(t.count);
    switch (t.operation) {
      case Operation::kAllReduce:
        MPI_Allreduce(t.send, t.receive, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Operation::kReduce:
        MPI_Reduce(t.send, t.receive, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
      case Operation::kBroadcast:
        // MPI_Bcast has one buffer: the root's send buffer, the others' receive buffer.
        MPI_Bcast(rank == 0 ? t.send : t.receive, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Operation::kAllGather:
        MPI_Allgather(t.send, n, MPI_FLOAT, t.receive, n, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Operation::kReduceScatter:
        MPI_Reduce_scatter_block(t.send, t.receive, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Operation::kAllToAll:
        MPI_Alltoall(t.send, n, MPI_FLOAT, t.receive, n, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Operation::kGather:
        MPI_Gather(t.send, n, MPI_FLOAT, t.receive, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Operation::kScatter:
        MPI_Scatter(t.send, n, MPI_FLOAT, t.receive, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Operation::kBarrier:
        MPI_Barrier(MPI_COMM_WORLD);
    }
  }

  int rank = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Mpi mpi;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string folder = argc > 1 ? argv[1] : ".";
  compare::bind(folder, mpi.rank);
  if (mpi.rank == 0) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    compare::report_version(folder, text);
  }
  compare::serve(mpi, folder, mpi.rank, ranks);
  MPI_Finalize();
  return 0;
}
