// SPDX-License-Identifier: Apache-2.0
// Verdicts from the reports of ranks on GPUs: kernels between hosts, kernels and streams of
// processes of one host, and a caller that waits for the other threads of its process.
#include "collectives/faults/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo::gpu {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kQuiet = 300 * kMs;

CallRecord sum_of(std::uint64_t count) {
  return {count, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
}

// A detector, and a clock that its source reads every 10 ms.
struct Watched {
  explicit Watched(int ranks, std::int64_t quiet_ns = kQuiet, std::int64_t patience_ns = 0,
                   int rank = 0)
      : detector({rank, ranks, [](int of) { return "rank " + std::to_string(of) + " (pid 7)"; },
                  quiet_ns, patience_ns}) {
    pass(1);
  }
  void pass(int milliseconds) {
    for (int i = 0; i < milliseconds; i += 10) detector.tick(now += 10 * kMs);
  }
  // The text of the verdict, or "".
  std::string fault_text() {
    const auto found = detector.verdict();
    if (!found) return "";
    fault = *found;
    return found->text;
  }
  FailureDetector detector;
  Fault fault;
  std::int64_t now = 0;
};

testing::Matcher<std::string> has_text(const std::string& part) {
  if (part.empty()) return testing::IsEmpty();
  return HasSubstr(part);
}

// A position in launch `number`; each launch has two parts.
Progress in_launch(std::uint64_t number, std::uint64_t count = 100) {
  Progress at;
  at.launches = number;
  at.launch = sum_of(count);
  at.begun = 2 * number;
  at.over = 2 * number - 2;
  return at;
}

Progress done_with(std::uint64_t number) {
  Progress at = in_launch(number);
  at.over = at.begun;
  return at;
}

Progress gave_up_for(int peer, std::uint64_t number) {
  Progress at = in_launch(number);
  at.gave_up_in = at.launch;
  at.gave_up = 1;
  at.peer = peer;
  at.limit_ns = 2500 * static_cast<std::uint64_t>(kMs);
  return at;
}

TEST(FailureDetector, ComparesCallsInAnyOrderOfArrival) {
  Watched ranks(3);
  const CallRecord same[] = {sum_of(1), sum_of(2), sum_of(3)};
  const CallRecord other[] = {sum_of(2), sum_of(4)};
  ranks.detector.report_calls(2, 1, same);
  ranks.detector.report_calls(0, 1, {same, 1});
  EXPECT_EQ(ranks.fault_text(), "");
  ranks.detector.report_calls(0, 2, other);
  EXPECT_THAT(ranks.fault_text(), HasSubstr("in call 3, rank 0 called AllReduce(count 4"));
  EXPECT_EQ(ranks.fault.status, StatusCode::kInvalidUsage);
  EXPECT_EQ(ranks.fault.culprit, 0);
  EXPECT_EQ(ranks.fault.sequence, 3u);
  EXPECT_EQ(ranks.fault_text(), "") << "one verdict is enough";
}

TEST(FailureDetector, LeavesCallsAloneThatAreTooFarApart) {
  Watched ranks(2);
  for (std::uint64_t n = 1; n <= FailureDetector::kWindow + 5; ++n) {
    const CallRecord call = sum_of(n);
    ranks.detector.report_calls(0, n, {&call, 1});
  }
  const CallRecord call = sum_of(77);
  ranks.detector.report_calls(1, 5, {&call, 1});
  EXPECT_EQ(ranks.fault_text(), "");
  ranks.detector.report_calls(1, 6, {&call, 1});
  EXPECT_NE(ranks.fault_text(), "");
}

TEST(FailureDetector, ComparesLaunchesOfOneNumber) {
  Progress after_others = in_launch(5, 200);
  after_others.digest = 1;
  Progress unread = in_launch(5, 999), none;
  unread.launches = 0;
  Progress in_windows = in_launch(5, 200);
  in_windows.launch.set_in_windows(true);
  const struct {
    Progress one, other;
    const char* message;
  } kRows[] = {
      {in_launch(4, 100), in_launch(5, 200), ""},
      {in_launch(5, 200), in_launch(5, 200), ""},
      {in_launch(5, 100), in_launch(5, 200), "rank 1 in AllReduce(count 200"},
      {done_with(5), in_launch(5, 200), "rank 1 in AllReduce(count 200"},
      {in_launch(5, 200), in_windows, "rank 1 lie in symmetric windows and those of rank 0 do not"},
      {in_launch(5, 100), in_windows, "rank 1 in AllReduce(count 200, float32, sum, in symmetric"},
      {after_others, in_launch(5, 200), "rank 0 and rank 1 have run different calls before"},
      {unread, none, ""},
  };
  for (const auto& row : kRows) {
    Watched ranks(2);
    ranks.detector.report(0, row.one);
    ranks.detector.report(1, row.other);
    EXPECT_THAT(ranks.fault_text(), has_text(row.message));
  }
}

TEST(FailureDetector, BlamesWhoIsGoneOnlyForWhatItLeftUndone) {
  Progress half = in_launch(3);
  half.over += 1;
  Progress half_begun = half;
  half_begun.begun -= 1;
  const struct {
    Progress of_the_gone;
    bool leaves;
    const char* message;
  } kRows[] = {
      {done_with(3), false, ""},
      {done_with(3), true, ""},
      {done_with(2), false, "rank 1 (pid 7) ended before it finished AllReduce"},
      {done_with(2), true, "rank 1 (pid 7) left the communicator before it finished AllReduce"},
      {half, false, "rank 1 (pid 7) ended"},
      {half_begun, false, "rank 1 (pid 7) ended"},
  };
  for (const auto& row : kRows) {
    Watched ranks(3);
    ranks.detector.report(0, in_launch(3));
    ranks.detector.report(1, row.of_the_gone);
    ranks.detector.report(2, done_with(3));
    row.leaves ? ranks.detector.report_leave(1) : ranks.detector.report_end(1);
    ranks.pass(200);
    EXPECT_EQ(ranks.fault_text(), "") << "news may be on their way";
    ranks.pass(10'000);
    EXPECT_THAT(ranks.fault_text(), has_text(row.message));
    if (*row.message != 0) {
      EXPECT_THAT(ranks.fault.text, HasSubstr("in which rank 0 waits for it"));
    }
  }
}

TEST(FailureDetector, WhoIsGoneWaitsForNobody) {
  Watched ranks(3);
  ranks.detector.report(0, done_with(3));
  ranks.detector.report(1, in_launch(3));
  ranks.detector.report(2, done_with(3));
  ranks.detector.report_end(1);
  ranks.pass(10'000);
  EXPECT_EQ(ranks.fault_text(), "") << "nobody needs its part";
  ranks.detector.report(2, in_launch(4));
  ranks.pass(1000);
  EXPECT_THAT(ranks.fault_text(), HasSubstr("rank 1 (pid 7) ended before it finished AllReduce"));
  EXPECT_THAT(ranks.fault.text, HasSubstr("in which rank 2 waits for it"));
}

TEST(FailureDetector, WaitsWhileAnythingMoves) {
  Watched ranks(2);
  ranks.detector.report_end(1);
  for (int second = 1; second < 10; ++second) {
    Progress moving = in_launch(1);
    moving.traffic = static_cast<std::uint64_t>(second);
    ranks.detector.report(0, moving);
    ranks.pass(100);
    EXPECT_EQ(ranks.fault_text(), "");
  }
  ranks.pass(1000);
  EXPECT_NE(ranks.fault_text(), "");
}

// The process was stopped or under a debugger; other ranks may have made progress.
TEST(FailureDetector, CountsNoTimeInWhichItsSourceDidNotRun) {
  Watched ranks(2);
  ranks.detector.report_end(1);
  ranks.detector.report(0, in_launch(1));
  ranks.detector.tick(ranks.now += 60'000 * kMs);
  EXPECT_EQ(ranks.fault_text(), "");
  ranks.pass(100);
  EXPECT_NE(ranks.fault_text(), "");
}

TEST(FailureDetector, NamesWhoNeverCameRatherThanWhoKeptTheKernelWaiting) {
  Watched ranks(3);
  ranks.detector.report(1, in_launch(2));
  ranks.detector.report(2, done_with(1));
  ranks.detector.report(0, gave_up_for(1, 2));
  EXPECT_THAT(ranks.fault_text(), HasSubstr("waited 2.5 s"));
  EXPECT_THAT(ranks.fault.text, HasSubstr("rank 2 did not make this call"));
  EXPECT_EQ(ranks.fault.status, StatusCode::kTimeout);
  EXPECT_EQ(ranks.fault.culprit, 2);
}

// A rank that receives reports only about itself and rank 0.
TEST(FailureDetector, LeavesTheVerdictToWhoKnowsMore) {
  Watched ranks(3, kQuiet, 500 * kMs, 1);
  ranks.detector.report(1, gave_up_for(2, 2));
  ranks.pass(400);
  EXPECT_EQ(ranks.fault_text(), "");
  ranks.pass(200);
  EXPECT_THAT(ranks.fault_text(), HasSubstr("rank 1 waited 2.5 s"));
  EXPECT_THAT(ranks.fault.text, testing::Not(HasSubstr("did not make this call")));
  EXPECT_EQ(ranks.fault.culprit, 2);
}

TEST(FailureDetector, BlamesALostConnectionLast) {
  Watched ranks(3, kQuiet, 0, 1);
  ranks.detector.report(1, in_launch(2));
  ranks.detector.report_lost(2, "connection reset");
  ranks.pass(1400);
  EXPECT_EQ(ranks.fault_text(), "");
  Watched end_reported = ranks;
  ranks.pass(200);
  EXPECT_THAT(ranks.fault_text(), HasSubstr("rank 2 (pid 7) is gone in AllReduce"));
  EXPECT_THAT(ranks.fault.text, HasSubstr("connection reset"));
  end_reported.detector.report_end(2);
  end_reported.pass(400);
  EXPECT_THAT(end_reported.fault_text(), HasSubstr("rank 2 (pid 7) ended"));
}

TEST(FailureDetector, ALostConnectionIsNothingToWhoIsInNoLaunch) {
  Watched ranks(3, kQuiet, 0, 1);
  ranks.detector.report(1, done_with(2));
  ranks.detector.report(0, in_launch(2));
  ranks.detector.report_lost(2, "connection reset");
  ranks.detector.report(2, done_with(2));
  ranks.pass(10'000);
  EXPECT_EQ(ranks.fault_text(), "");
}

TEST(FailureDetector, BlamesWhomAStreamAwaits) {
  const struct {
    std::vector<int> awaited;
    int gone, after_ms;
    const char* message;
  } kRows[] = {
      {{1, 2}, 2, 400, "rank 2 (pid 7) ended before it finished call 7, Sum, in which rank 0"},
      {{1}, 2, 10'000, ""},
      {{}, 2, 2900, ""},
      {{}, 2, 3100, "rank 2 (pid 7) ended"},
  };
  for (const auto& row : kRows) {
    Watched ranks(3);
    ranks.detector.report_wait(0, Wait{"call 7, Sum", row.awaited, 0});
    ranks.detector.report_end(row.gone);
    ranks.pass(row.after_ms);
    EXPECT_THAT(ranks.fault_text(), has_text(row.message));
  }
}

TEST(FailureDetector, AWaitExpiresByTheTimeInWhichNothingMoved) {
  const struct {
    Wait wait;
    int culprit;
    const char* message;
  } kRows[] = {
      {{"a message", {2}, 0.5},
       2,
       "rank 1 waited 0.5 s for rank 2 in a message; the communicator's "},
      {{"call 7, Sum", {0, 2}, 0.5}, 0, "rank 1 waited 0.5 s for ranks 0, 2 in call 7, Sum"},
      {{"call 7, Sum", {}, 0.5}, -1, "rank 1 waited 0.5 s for its peers in call 7, Sum"},
      {{"", {0}, 0.5}, 0, "rank 1 waited 0.5 s for rank 0 to make the same call"},
      {{"a message", {2}, 0}, -1, ""},
  };
  for (const auto& row : kRows) {
    Watched ranks(3, kQuiet, 0, 1);
    ranks.detector.report_wait(1, row.wait);
    ranks.pass(300);
    Progress moved;
    moved.traffic = 1;
    ranks.detector.report(1, moved);
    ranks.detector.report_wait(1, row.wait);
    ranks.pass(300);
    EXPECT_EQ(ranks.fault_text(), "");
    ranks.pass(300);
    EXPECT_THAT(ranks.fault_text(), has_text(row.message));
    EXPECT_EQ(ranks.fault.culprit, row.culprit);
  }
}

TEST(FailureDetector, AWaitEndsWhenItsSourceReportsIt) {
  Watched ranks(2);
  ranks.detector.report_wait(0, Wait{"a message", {1}, 0.5});
  ranks.pass(400);
  ranks.detector.report_wait(0, std::nullopt);
  ranks.pass(400);
  EXPECT_EQ(ranks.fault_text(), "");
  ranks.detector.report_wait(0, Wait{"a message", {1}, 0.5});
  EXPECT_EQ(ranks.fault_text(), "") << "another wait";
}

TEST(FailureDetector, BlamesAtOnceWhoLeftWithoutComing) {
  Watched ranks(2, 0);
  ranks.detector.report_leave(1);
  ranks.detector.report_wait(0, Wait{"", {1}, 10});
  EXPECT_THAT(ranks.fault_text(),
              HasSubstr("rank 1 (pid 7) left the communicator without making a call"));
}

TEST(FailureDetector, AsksWhoIsGoneOnlyWhereSomebodyWaits) {
  Watched ranks(2);
  ranks.pass(100);
  EXPECT_FALSE(ranks.detector.is_stalled()) << "nobody waits";
  ranks.detector.report(0, in_launch(1));
  EXPECT_FALSE(ranks.detector.is_stalled());
  ranks.detector.tick(ranks.now += 10 * kMs);
  EXPECT_FALSE(ranks.detector.is_stalled()) << "the news of this tick is to come";
  ranks.detector.tick(ranks.now += 10 * kMs);
  EXPECT_TRUE(ranks.detector.is_stalled());
}

TEST(FailureDetector, WarnsOnceAStall) {
  Watched ranks(3);
  ranks.detector.report(0, in_launch(2));
  ranks.detector.report(1, done_with(2));
  ranks.detector.report(2, done_with(1));
  ranks.pass(59'000);
  EXPECT_FALSE(ranks.detector.warning());
  ranks.pass(2000);
  EXPECT_THAT(ranks.detector.warning().value_or(""),
              HasSubstr("rank 0 has waited 61 s for rank 2 in AllReduce"));
  ranks.pass(1000);
  EXPECT_FALSE(ranks.detector.warning()) << "once";
  ranks.detector.report_wait(1, Wait{"", {2}, 0});
  ranks.pass(61'000);
  EXPECT_THAT(
      ranks.detector.warning().value_or(""),
      HasSubstr("rank 1 has waited 61 s for rank 2 to make the same call; it keeps waiting"));
}

// Rank 1 waits for rank 2, which is alive and waits for rank 3, which is dead.
TEST(FailureDetector, LooksAtAllWhoWaitInMessages) {
  Watched watched(4);
  watched.detector.report_wait(1, Wait{"a message", {2}, 0});
  watched.detector.report_wait(2, Wait{"a message", {3}, 0});
  watched.pass(1000);
  EXPECT_EQ(watched.fault_text(), "");
  watched.detector.report_end(3);
  watched.pass(400);
  EXPECT_THAT(watched.fault_text(), has_text("rank 3 (pid 7) ended before it finished a message"));
  EXPECT_EQ(watched.fault.culprit, 3);
}

// Messages of a rank that has left may be on their way for longer than the wait for its death.
TEST(FailureDetector, WaitsLongerForMessagesOfARankThatHasLeft) {
  FailureDetector detector({0, 2, [](int) { return "rank 1 (pid 7)"; }, kQuiet, 0, 10 * kQuiet});
  std::int64_t now = kMs;
  const auto pass = [&](int milliseconds) {
    for (int i = 0; i < milliseconds; i += 10) detector.tick(now += 10 * kMs);
  };
  detector.report_wait(0, Wait{"a message", {1}, 0});
  pass(10);
  detector.report_leave(1);
  pass(2500);
  EXPECT_FALSE(detector.verdict());
  pass(1000);
  const auto found = detector.verdict();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, HasSubstr("left the communicator before it finished a message"));
}

// A lost connection is no fault if this rank does not wait for its peer.
TEST(FailureDetector, BlamesALostConnectionForMessagesThatWaitForIt) {
  for (const int awaited : {1, 2}) {
    Watched watched(3);
    watched.detector.report_wait(0, Wait{"a message", {awaited}, 0});
    watched.detector.report_lost(2, "no route");
    watched.pass(2500);
    EXPECT_THAT(watched.fault_text(), has_text(awaited == 2 ? "no route" : ""));
  }
}

}  // namespace
}  // namespace rondo::gpu
