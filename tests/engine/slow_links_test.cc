// SPDX-License-Identifier: Apache-2.0
// Links between hosts that take long to open: a rank that waits for one is not stuck, whatever the
// others do meanwhile.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"

namespace rondo::test {
namespace {

class SlowLinks : public testing::TestWithParam<int> {};

// A stopped rank answers no connection. The root's data is on its way to it; the others wait, in
// the next call, for the ranks that sent it. Without that data this would be a cycle of waits.
TEST_P(SlowLinks, AreNoCycleOfWaits) {
  const int stopped = GetParam();
  Job options;
  options.comm = short_timeouts();
  options.hosts = {"a", "a", "a", "b", "b", "b"};
  const int n = static_cast<int>(options.hosts.size());
  RankProcesses ranks(n, options, [stopped](EngineRank& seat) {
    SampleCall first(Collective::kBroadcast, 169, seat.size, 2);
    SampleCall second(Collective::kAllGather, 466, seat.size);
    seat.mark(1);
    seat.expect(seat.wait_flag(1), "no flag");
    Status done = seat.comm->run({&first.call, 1});
    if (done.ok()) done = seat.comm->run({&second.call, 1});
    if (done.ok()) {
      const auto ones = std::count(first.output(), first.output() + 169, 1) +
                        std::count(second.output(), second.output() + 466 * seat.size, 1);
      seat.expect(ones == 169 + 466 * seat.size, "wrong data");
    }
    seat.report(done);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  ranks.send(stopped, SIGSTOP);
  ranks.board().flag.store(1);
  nap(2);
  ranks.send(stopped, SIGCONT);
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < n; ++r) EXPECT_EQ(ranks.status(r), StatusCode::kSuccess) << ranks.text(r);
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Stopped, SlowLinks, testing::Values(3, 4, 5));

}  // namespace
}  // namespace rondo::test
