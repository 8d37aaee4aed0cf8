// SPDX-License-Identifier: Apache-2.0
// Communicators on GPUs whose ranks have a tune file: they predict by its rates.
#include "collectives/planner/tune_file.h"
#include "tests/gpu/device_case.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "transport/cuda/device.h"

namespace rondo::test {
namespace {

constexpr double kLaunchUs = 123'456;

// Microseconds for an all-reduce; all ranks query it.
double predicted_us(DeviceRanks& ranks) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ranks.use_device_of(0);
  DeviceBuffer buffer(sizeof(float), 0);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclFloat, ncclSum, ranks.comms()[0],
                          static_cast<cudaStream_t>(ranks.streams()[0])),
            ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
  return info.estimatedTime;
}

// As rondo tune would have measured it on a GPU of that name.
std::string slow_launches(const std::string& gpu) {
  TuneFile file = tune_key_of_this_machine();
  file.gpu = gpu;
  file.device.set(gpu::DeviceRate::kLaunch, kLaunchUs * 1000);
  return format_tune_file(file);
}

class TunedCosts : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus_there() < 1) GTEST_SKIP() << "no GPU";
  }
  const TemporaryFolder folder;
};

TEST_F(TunedCosts, OfTheRanksGpuCount) {
  const WithEnvironment variable("RONDO_TUNE_FILE",
                                 folder.file("own", slow_launches(rondo::gpu::device_name_of(0))));
  DeviceRanks ranks(2);
  const double us = predicted_us(ranks);
  EXPECT_GT(us, kLaunchUs);
  EXPECT_LT(us, 2 * kLaunchUs);
}

TEST_F(TunedCosts, OfOtherGpusDoNotCount) {
  const WithEnvironment variable("RONDO_TUNE_FILE",
                                 folder.file("other", slow_launches("A GPU of another make")));
  DeviceRanks ranks(2);
  EXPECT_LT(predicted_us(ranks), kLaunchUs / 100);
}

}  // namespace
}  // namespace rondo::test
