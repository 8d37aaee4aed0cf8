// SPDX-License-Identifier: Apache-2.0
// What a test learns if one of its ranks fails while others wait for it: which rank it was, and
// that at once.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "tests/support/processes.h"

namespace rondo::test {
namespace {

Job without_communicators(Layout layout) {
  Job job(std::move(layout));
  job.create = false;
  return job;
}

// The report of a rank's failure is no output of this test.
void be_silent() {
  if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(3);
}

TEST(RankProcesses, AreAllEndedOnceAnAssertionOfOneFails) {
  RankProcesses ranks(without_communicators(as_processes(3)), [](RankSeat& seat) {
    if (seat.rank != 1) sleep_until_killed();
    be_silent();
    ASSERT_EQ(seat.size, 4711);
  });
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(ranks.wait_reports()), "rank 1 of 3 ");
  for (const int r : {0, 2}) EXPECT_EQ(kill(ranks.pid(r), 0), -1) << "rank " << r << " lives";
  EXPECT_FALSE(ranks.wait_exits());  // and says nothing twice
  EXPECT_NONFATAL_FAILURE(ranks.check_expectations(), "rank_processes_test.cc");
}

TEST(RankProcesses, AreAllEndedOnceAnExpectationOfOneFails) {
  RankProcesses ranks(without_communicators(as_processes(2)), [](RankSeat& seat) {
    seat.expect(seat.rank != 1, "what it says");
    sleep_until_killed();
  });
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(ranks.wait_stage(1)), "what it says");
}

TEST(RankProcesses, AreAllEndedOnceAThreadOfOneFails) {
  RankProcesses ranks(without_communicators({{{kHostMemory, kHostMemory}, {kHostMemory}}, {}, {}}),
                      [](RankSeat& seat) {
                        if (seat.rank != 1) sleep_until_killed();
                        be_silent();
                        EXPECT_EQ(seat.size, 4711);
                        sleep_until_killed();
                      });
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(ranks.wait_exits()), "Which is: 3");
}

// What the wait is for may come before the failure.
TEST(RankProcesses, MayFailOnceTheyHaveReported) {
  RankProcesses ranks(without_communicators(as_processes(2)), [](RankSeat& seat) {
    if (seat.rank == 0) return;
    seat.report(ok_status());
    seat.expect(false, "what it says");
  });
  EXPECT_TRUE(ranks.wait_reports({0}));
  EXPECT_TRUE(wait_until([&] { return ranks.board().seats[1].failures.load() != 0; }));
  EXPECT_NONFATAL_FAILURE(ranks.check_expectations(), "what it says");
}

}  // namespace
}  // namespace rondo::test
