// SPDX-License-Identifier: Apache-2.0
// The status of a job whose ranks are on GPUs names the rank for which kernels and streams wait.
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/gpu/process_bodies.h"
#include "tests/support/status_job.h"

namespace rondo::test {
namespace {

const NamedLayout kStatusLayouts[] = {
    {"one_gpu", {{{0}, {0}}}},
    {"own_gpus", {{{0}, {1}, {2}}}},
    {"threads", {{{0, 1}}}},
    {"two_hosts", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}, {{"RONDO_GPU_RELAY", "1"}}}},
    {"two_hosts_by_host", {{{0}, {1}}, {"a", "b"}}}};

class StatusOfGpus : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Placements, StatusOfGpus, testing::ValuesIn(kStatusLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

// One rank stays out of the third sum until the test has seen it.
TEST_P(StatusOfGpus, NamesTheRankForWhichKernelsWait) {
  const StatusJob status;
  const Layout layout = GetParam().layout.under(status.environment());
  for (const int culprit : {0, layout.ranks() - 1}) {
    RankProcesses ranks(layout, [culprit](NcclRank& seat) {
      DeviceBuffer buffer(4000, 0);
      for (int round = 0; round < 2; ++round) NCCL_OK(sum_once(seat, buffer, 1000));
      seat.mark(1);
      if (seat.rank == culprit) {
        ASSERT_TRUE(seat.wait_flag(1));
      }
      NCCL_OK(sum_once(seat, buffer, 1000));
    });
    ASSERT_TRUE(ranks.wait_stage(1));
    const int asked = ranks.pid(culprit == 0 ? layout.ranks() - 1 : 0);
    std::vector<Blame> blamed;
    std::string seen;
    wait_until([&] {  // on a busy machine a process may not answer
      const auto view = ask_process(asked, !layout.hosts.empty());
      if (view.ok()) blamed = diagnose(*view);
      seen = view.ok() ? view->to_json().text(1) : view.error().text;
      return !blamed.empty();
    });
    EXPECT_EQ(blamed.size(), 1u) << seen;
    if (blamed.size() == 1) {
      EXPECT_EQ(blamed[0].rank, culprit) << blamed[0].text << "\n" << seen;
      EXPECT_EQ(blamed[0].kind, Blame::kNotEntered) << blamed[0].text << "\n" << seen;
    }
    ranks.board().flag.store(1);
    EXPECT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
  }
}

}  // namespace
}  // namespace rondo::test
