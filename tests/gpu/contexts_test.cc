// SPDX-License-Identifier: Apache-2.0
// The GPUs on which a process has a context: those of its ranks. A context elsewhere takes memory
// of that GPU, for each process of the host, and is refused where the GPU is in exclusive mode.
#include <algorithm>

#include "tests/gpu/process_bodies.h"
#include "tests/gpu/put_bodies.h"
#include "tests/simt/device/table.h"

namespace rondo::test {
namespace {

constexpr std::size_t kCount = 3000;

std::vector<int> gpus_beside(const Layout& layout, int rank) {
  int process = 0;
  while (layout.first_of(process + 1) <= rank) ++process;
  return layout.processes[process];
}

void expect_no_other_contexts(const std::vector<int>& own) {
  for (const int device : simt::devices_with_context())
    EXPECT_NE(std::count(own.begin(), own.end(), device), 0)
        << "a context on GPU " << device << ", where no rank of the process lives";
}

class Contexts : public testing::TestWithParam<NamedLayout> {};

TEST_P(Contexts, AreOnlyOnTheGpusOfTheProcesssRanks) {
  Job job = GetParam().layout;
  job.create = false;
  run_job(job, [&job](NcclRank& seat) {
    seat.join();
    if (seat.comm == nullptr) return;
    {
      DeviceBuffer buffer(kCount * 4, 0);
      buffer.put(Bytes(kCount * 4), 0, seat.stream);
      NCCL_OK(sum_once(seat, buffer, kCount));
      PutExchange exchange({seat.comm, seat.stream, seat.rank, seat.size}, 8);
      exchange.signal_all();
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    }
    seat.leave();
    expect_no_other_contexts(gpus_beside(job, seat.rank));
    nap(0.2);  // threads that free memory later
    expect_no_other_contexts(gpus_beside(job, seat.rank));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Placements, Contexts,
    testing::Values(NamedLayout{"gpus_of_their_own", {{{1}, {2}}}},
                    NamedLayout{"threads", {{{1, 2}, {3}}}}, NamedLayout{"one_gpu", {{{1}, {1}}}},
                    NamedLayout{"hosts", {{{1}, {2}}, {"a", "b"}}},
                    NamedLayout{"blocking_launches",
                                {{{1, 2}}, {}, {{"CUDA_LAUNCH_BLOCKING", "1"}}}}),
    [](const auto& info) { return std::string(info.param.name); });

// One thread makes the ranks of several GPUs.
TEST(ContextsOfOneThread, AreOnlyOnTheGpusOfItsRanks) {
  Job job = Layout{{{1}}};
  job.create = false;
  run_job(job, [](NcclRank& seat) {
    seat.prepare();
    const std::vector<int> devices{1, 2, 3};
    std::vector<ncclComm_t> comms(devices.size());
    NCCL_OK(ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()));
    std::vector<void*> buffers(devices.size());
    std::vector<GpuStream> streams(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) {
      GPU_OK(gpu_api()->set_device(devices[i]));
      GPU_OK(gpu_api()->create_stream(&streams[i], 0));
      GPU_OK(gpu_api()->allocate(&buffers[i], kCount * 4));
    }
    GPU_OK(gpu_api()->set_device(1));
    NCCL_OK(ncclGroupStart());
    for (std::size_t i = 0; i < devices.size(); ++i)
      NCCL_OK(ncclAllReduce(buffers[i], buffers[i], kCount, ncclInt32, ncclSum, comms[i],
                            static_cast<cudaStream_t>(streams[i])));
    NCCL_OK(ncclGroupEnd());
    for (const GpuStream stream : streams) GPU_OK(gpu_api()->synchronize_stream(stream));
    for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
    nap(0.2);
    expect_no_other_contexts(devices);
  });
}

}  // namespace
}  // namespace rondo::test
