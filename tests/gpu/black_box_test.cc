// SPDX-License-Identifier: Apache-2.0
// The black box of ranks on GPUs has the calls that kernels run, once they are on their streams.
#include <unistd.h>

#include "collectives/trace/rank_trace.h"
#include "tests/gpu/device_case.h"
#include "tests/support/environment.h"

namespace rondo::test {
namespace {

TEST(GpuBlackBox, HasTheCallsThatAreOnTheirStreams) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const WithEnvironment record("RONDO_RECORD", "1");
  DeviceRanks ranks(std::vector<int>{0, 1});
  const Case c{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, ranks.size(), 0, 700, 7};
  DeviceCase made(ranks, c, false, 0);
  made.fill_inputs();
  for (int turn = 0; turn < 3; ++turn) {
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < ranks.size(); ++r) NCCL_OK(made.call(r));
    NCCL_OK(ncclGroupEnd());
  }
  ranks.synchronize();
  const auto traces = trace::traces_of_process(getpid());
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  int found = 0;
  for (const trace::RankTrace& rank : *traces) {
    if (rank.calls.size() != 3) continue;
    ++found;
    EXPECT_EQ(rank.calls.back().sequence, 3u);
    EXPECT_EQ(rank.calls.back().call.count, 700u);
    EXPECT_EQ(rank.calls.back().protocol, "enqueued");
    EXPECT_TRUE(rank.calls.back().ended());
    EXPECT_GT(rank.device_bytes, 0u);
  }
  EXPECT_EQ(found, ranks.size());
}

}  // namespace
}  // namespace rondo::test
