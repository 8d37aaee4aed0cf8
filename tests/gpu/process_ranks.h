// Ranks as processes on one GPU for tests. The test's own process never touches the device: a
// driver does not survive fork().
//
//   run_on_gpu(4, {}, [](GpuSeat& seat) { NCCL_OK(ncclAllReduce(..., seat.comm, seat.stream)); });
#pragma once

#include <functional>

#include "tests/gpu/device_ranks.h"
#include "tests/support/processes.h"

namespace rondo::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

// A rank in its own process: gtest's assertions in it fail the test.
struct GpuSeat {
  RankSeat& seat;
  int rank, size;
  ncclComm_t comm = nullptr;
  GpuStream stream = nullptr;
  int device = 0;

  ncclUniqueId id() const;
  void join(int n, int as);  // makes comm
  void leave();              // waits for the stream, destroys comm
};
using GpuBody = std::function<void(GpuSeat&)>;

// Counted by a process of its own.
int gpus_there();

// Options for RankProcesses whose body is made by on_gpu().
RankProcesses::Options gpu_options(const Environment& environment);
// Where ranks in processes of their own are.
enum class Gpus { kOne, kTwoInTurns, kOneEach };

// A body for RankProcesses: joins, runs, leaves.
RankProcesses::Body on_gpu(const GpuBody& body, Gpus gpus = Gpus::kOne);

// n processes, each one rank; waits for all of them.
void run_on_gpu(int n, const Environment& environment, const GpuBody& body, Gpus gpus = Gpus::kOne);

// Processes with several ranks, each a thread: [process][rank of it] is its device.
using Places = std::vector<std::vector<int>>;
int ranks_of(const Places& places);
// hosts: NCCL_HOSTID of each process; empty: all on this host. seconds: for all of it.
void run_on_gpus(const Places& places, const Environment& environment, const GpuBody& body,
                 const std::vector<std::string>& hosts = {}, double seconds = 240);
// A body for RankProcesses that are processes of several ranks; report() is the first rank's.
RankProcesses::Body on_gpus(const Places& places, const GpuBody& body);

}  // namespace rondo::test
