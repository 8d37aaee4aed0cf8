// SPDX-License-Identifier: Apache-2.0
// Errors that ranks on GPUs get for every kind of fault: tests/golden/files/faults_*.txt.
#include "tests/golden/fault_jobs.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {
namespace {

// Small slots, so that what hosts relay reuses them often.
const Environment kByKernels = {{"RONDO_GPU_RELAY", "1"}, {"NCCL_BUFFSIZE", "4096"}};
const Environment kByHosts = {{"NCCL_PROTO", "ll"}};  // kernels between hosts use Simple

// On the emulated device's clock, which is slower than wall time.
constexpr double kSeconds = 0.7;
constexpr double kSecondsOfHosts = 3;  // a waiting rank queries other hosts first

const FaultLayout kLayouts[] = {
    {"threads_one_gpu", {{{0, 0, 0}}}, kSeconds},
    {"threads_own_gpus", {{{0, 1, 2}}}, kSeconds},
    {"processes_one_gpu", as_processes(3, Gpus::kOne), kSeconds},
    {"processes_own_gpus", as_processes(3, Gpus::kOneEach), kSeconds},
    {"processes_of_a_switch", as_processes(3, Gpus::kOneEach, {{"NCCL_NVLS_ENABLE", "1"}}),
     kSeconds},
    {"processes_gpus_apart", as_processes(3, Gpus::kOneEach, {{"NCCL_P2P_DISABLE", "1"}}),
     kSeconds},
    {"mixed_own_gpus", {{{0, 1}, {2}}}, kSeconds},
    {"gpus_of_hosts_kernels", {{{0}, {1}, {2}}, {"a", "b", "c"}, kByKernels}, kSecondsOfHosts},
    {"gpus_of_hosts_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}, kByHosts}, kSecondsOfHosts},
};

class FaultGolden : public testing::TestWithParam<FaultLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < kFaultRanks) GTEST_SKIP() << "too few GPUs";
  }
};

TEST_P(FaultGolden, OfEveryKind) { expect_golden_faults(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Placements, FaultGolden, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
