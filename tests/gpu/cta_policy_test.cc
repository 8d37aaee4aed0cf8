// SPDX-License-Identifier: Apache-2.0
// CTA policy ZERO where no copy engine can do what it asks for: a WARN says so.
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

namespace rondo::test {
namespace {

constexpr const char* kWarning = "CTAPolicy ZERO asks for copy engines, but kernels run AllGather";

struct PolicyPlace {
  const char* name;
  Layout layout;
  int policy;
  int warnings;  // of rank 0
};
const PolicyPlace kPolicyPlaces[] = {
    {"own_gpus", as_processes(2, Gpus::kOneEach), NCCL_CTA_POLICY_ZERO, 1},
    {"one_gpu", as_processes(2, Gpus::kOne), NCCL_CTA_POLICY_ZERO, 1},
    {"threads_of_two_gpus", {{{0, 1}}}, NCCL_CTA_POLICY_ZERO, 1},
    {"threads_of_one_gpu", {{{0, 0}}}, NCCL_CTA_POLICY_ZERO, 0},
    {"own_gpus_by_kernels", as_processes(2, Gpus::kOneEach), NCCL_CTA_POLICY_EFFICIENCY, 0},
};

class CtaPolicy : public testing::TestWithParam<PolicyPlace> {};
INSTANTIATE_TEST_SUITE_P(Places, CtaPolicy, testing::ValuesIn(kPolicyPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CtaPolicy, ZeroIsReportedOnceWhereKernelsRun) {
  if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  const RankLogs logs;
  Job job = GetParam().layout;
  job.create = false;
  const bool apart = GetParam().layout.processes.size() > 1;  // else its ranks share one log
  run_job(job, [&](NcclRank& seat) {
    logs.use(apart ? seat.rank : 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = GetParam().policy;
    config.commName = "pipeline";
    seat.join(&config);
    if (seat.comm == nullptr) return;
    for (unsigned seed = 1; seed < 3; ++seed) {
      run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 2, 0, 100, seed},
               {});
      run_case(seat, {Collective::kAllGather, DataType::kInt32, RedOp::kSum, 2, 0, 100, seed}, {});
    }
    seat.leave();
  });
  std::string line;
  EXPECT_EQ(logs.count(0, kWarning, &line), GetParam().warnings);
  EXPECT_EQ(logs.count(1, kWarning), 0);
  if (GetParam().warnings == 0) return;
  EXPECT_NE(line.find("communicator 'pipeline' of 2 ranks"), std::string::npos) << line;
  EXPECT_NE(line.find("NCCL_MAX_CTAS"), std::string::npos) << line;
}

}  // namespace
}  // namespace rondo::test
