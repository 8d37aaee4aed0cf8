// SPDX-License-Identifier: Apache-2.0
// Suites with planted faults, on the emulated GPU, which tests/gpu/check.sh must distinguish. The
// program is called gpu_tests, is in its own folder, and is run only by check_planted.py.
#include <unistd.h>

#include <cstdlib>

#include "tests/gpu/device_case.h"

namespace rondo::test {
namespace {

Case sum_of(int ranks) {
  return {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, ranks, 0, 100, 1};
}
void reduce_well() {
  DeviceRanks ranks(2);
  run_grouped(ranks, sum_of(2), false, 0);
}

TEST(PlantedNothing, Passes) { reduce_well(); }

// A stream waits for a word that is never written; a process leaves its group and stays.
TEST(PlantedHang, PassesBefore) { reduce_well(); }
TEST(PlantedHang, WaitsWithoutLimit) {
  if (fork() == 0) {
    setsid();
    sleep(600);
    _exit(0);
  }
  GpuStream stream = nullptr;
  void* flag = nullptr;
  GPU_OK(gpu_api()->create_stream(&stream, 0));
  GPU_OK(gpu_api()->allocate(&flag, 4096));
  GPU_OK(gpu_api()->fill(flag, 0, 4096, stream));
  GPU_OK(gpu_api()->stream_wait32(stream, flag, 1, GpuWait::kEqual));
  GPU_OK(gpu_api()->synchronize_stream(stream));
}
TEST(PlantedHang, PassesAfter) { reduce_well(); }

// The first kernel of the process loses its device, and all later work there fails.
TEST(PlantedStickyError, LosesTheDevice) {
  ASSERT_EQ(setenv("RONDO_SIMT", "lost=1", 1), 0);
  reduce_well();
}
TEST(PlantedStickyError, PassesByItself) { reduce_well(); }

TEST(PlantedWrongSum, FindsAnotherInput) {
  DeviceRanks ranks(2);
  DeviceBuffer in[2] = {{400, 0}, {400, 0}}, out[2] = {{400, 0}, {400, 0}};
  for (int r = 0; r < 2; ++r) in[r].put(Bytes(400, std::byte{0}), 0, ranks[r].stream);
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r)
    NCCL_OK(ncclAllReduce(in[r].data(), out[r].data(), 100, ncclFloat32, ncclSum, ranks[r].comm,
                          ranks[r].stream));
  NCCL_OK(ncclGroupEnd());
  out[1].get(ranks[1].stream);
  float sum = -1;
  std::memcpy(&sum, out[1].host() + 4, sizeof sum);
  ASSERT_EQ(sum, 7) << "planted: the sum of rank 1";
}
TEST(PlantedWrongSum, PassesAfter) { reduce_well(); }

TEST(PlantedCrash, EndsByASignal) { std::abort(); }
TEST(PlantedExit, EndsTheProcess) { _exit(5); }

}  // namespace
}  // namespace rondo::test
