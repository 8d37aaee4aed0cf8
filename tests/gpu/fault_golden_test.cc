// What ranks on GPUs are told of every kind of fault: tests/golden/files/faults_*.txt.
#include "base/gpu.h"
#include "tests/golden/fault_jobs.h"
#include "tests/gpu/process_ranks.h"

namespace rondo::test {
namespace {

RankMemory memory_on(int device) {
  const GpuApi* const gpu = gpu_api();
  RankMemory memory;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(gpu->set_device(device), kGpuSuccess);
  EXPECT_EQ(gpu->create_stream(&stream, 0), kGpuSuccess);
  EXPECT_EQ(gpu->allocate(&memory.bytes, kFaultBytes), kGpuSuccess);
  memory.stream = stream;
  memory.synchronize = [gpu, stream] { EXPECT_EQ(gpu->synchronize_stream(stream), kGpuSuccess); };
  return memory;
}
RankMemory on_first_gpu(int) { return memory_on(0); }
RankMemory on_own_gpu(int rank) { return memory_on(rank); }

// Small slots: what the hosts pass on goes round often.
const Environment kByKernels = {{"RONDO_GPU_RELAY", "1"}, {"NCCL_BUFFSIZE", "4096"}};
const Environment kByHosts = {{"RONDO_GPU_RELAY", "1000000000"}};

// By the emulated device's clock, which is slower than that of the wall.
constexpr double kSeconds = 0.7;
constexpr double kSecondsOfHosts = 3;  // who waits asks other hosts first

const FaultPlacement kPlacements[] = {
    {"threads_one_gpu", {3}, {}, {}, on_first_gpu, kSeconds},
    {"threads_own_gpus", {3}, {}, {}, on_own_gpu, kSeconds},
    {"processes_one_gpu", {1, 1, 1}, {}, {}, on_first_gpu, kSeconds},
    {"processes_own_gpus", {1, 1, 1}, {}, {}, on_own_gpu, kSeconds},
    {"processes_gpus_apart", {1, 1, 1}, {}, {{"NCCL_P2P_DISABLE", "1"}}, on_own_gpu, kSeconds},
    {"mixed_own_gpus", {2, 1}, {}, {}, on_own_gpu, kSeconds},
    {"gpus_of_hosts_kernels", {1, 1, 1}, {"a", "b", "c"}, kByKernels, on_own_gpu, kSecondsOfHosts},
    {"gpus_of_hosts_hosts", {1, 1, 1}, {"a", "b", "c"}, kByHosts, on_own_gpu, kSecondsOfHosts},
};

class FaultGolden : public testing::TestWithParam<FaultPlacement> {
 protected:
  void SetUp() override {
    if (gpus_there() < kFaultRanks) GTEST_SKIP() << "too few GPUs";
  }
};

TEST_P(FaultGolden, OfEveryKind) { expect_golden_faults(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Placements, FaultGolden, testing::ValuesIn(kPlacements),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
