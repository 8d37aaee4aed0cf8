// SPDX-License-Identifier: Apache-2.0
// bench/compare/meeting.h: what the time of a single call is, and which rank comes late.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "bench/compare/meeting.h"
#include "tests/support/temporary_folder.h"

namespace {

using compare::Lateness;
using compare::Meeting;

// A group's folder, as bench/compare/groups.py makes it.
class MeetingTest : public testing::Test {
 protected:
  MeetingTest() {
    const int file =
        open((folder_.path() + "/meeting").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::uint64_t cores = 1;  // crowded, so that ranks yield
    EXPECT_EQ(write(file, &cores, sizeof cores), static_cast<ssize_t>(sizeof cores));
    EXPECT_EQ(ftruncate(file, 4 << 20), 0);
    close(file);
  }

  // Runs `body` on one thread for each rank.
  template <class Body>
  void run(int ranks, Body body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(r); });
    for (std::thread& thread : threads) thread.join();
  }

  const rondo::test::TemporaryFolder folder_;
};

TEST_F(MeetingTest, TheTimeOfACallIsFromTheLatestEntryToTheLatestReturn) {
  run(3, [&](int rank) {
    Meeting meeting(folder_.path(), rank, 3);
    // Rank 2 comes last and returns first; the time is 20 - 12 whatever the early ones waited.
    const double entered[] = {1, 5, 12}, left[] = {20, 18, 13};
    meeting.note(0, entered[rank], left[rank]);
    EXPECT_EQ(meeting.median(1), 8);
  });
}

TEST_F(MeetingTest, ReportsTheMedianOfItsCalls) {
  run(2, [&](int rank) {
    Meeting meeting(folder_.path(), rank, 2);
    const double seconds[] = {9, 1, 100, 2, 3};
    for (int call = 0; call < 5; ++call) meeting.note(call, 10 * call, 10 * call + seconds[call]);
    EXPECT_EQ(meeting.median(5), 3);
  });
}

TEST_F(MeetingTest, NobodyLeavesBeforeAllHaveComeAlsoInALaterMeetingOfTheSameFile) {
  std::atomic<int> came{0};
  for (int line = 0; line < 3; ++line)
    run(4, [&](int rank) {
      Meeting meeting(folder_.path(), rank, 4);
      for (int turn = 1; turn <= 50; ++turn) {
        ++came;
        meeting.meet();
        EXPECT_GE(came.load(), 4 * (50 * line + turn));
      }
    });
}

TEST(LatenessTest, OneRankOfEachCallIsLateByUpToTwiceTheTypicalTime) {
  const Lateness late{1e-3, 7};
  double total = 0;
  std::vector<int> times(4);
  for (int call = 0; call < 400; ++call) {
    int count = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const double delay = late.of(rank, 4, call);
      EXPECT_GE(delay, 0);
      EXPECT_LT(delay, 2e-3);
      total += delay;
      count += delay > 0;
      times[static_cast<std::size_t>(rank)] += delay > 0;
    }
    EXPECT_LE(count, 1) << call;
  }
  EXPECT_NEAR(total / 400, 1e-3, 1e-4);  // seeded: the same in every run
  for (const int each : times) EXPECT_GT(each, 70);
}

TEST(LatenessTest, TheScheduleIsTheSeeds) {
  const Lateness late{1e-3, 7}, same{1e-3, 7}, other{1e-3, 8};
  int differ = 0;
  for (int call = 0; call < 100; ++call) {
    EXPECT_EQ(late.of(0, 2, call), same.of(0, 2, call));
    differ += late.of(0, 2, call) != other.of(0, 2, call);
  }
  EXPECT_GT(differ, 50);
  EXPECT_EQ((Lateness{0, 7}).of(0, 1, 3), 0) << "without a typical time nobody is late";
}

}  // namespace
