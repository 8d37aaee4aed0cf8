// What rank 0 makes of what the ranks of several hosts tell of themselves.
#include "collectives/watchdog/failure_detector.h"

#include <gtest/gtest.h>

namespace rondo::gpu {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

CallRecord sum_of(std::uint64_t count) {
  return {count, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
}

FailureDetector judge_of(int ranks) {
  return FailureDetector(ranks,
                         [](int rank) { return "rank " + std::to_string(rank) + " (pid 7)"; });
}

Standing in_launch(std::uint64_t number, std::uint64_t count = 100) {
  Standing standing;
  standing.begun = number;
  standing.launch = sum_of(count);
  standing.inside = 1;
  return standing;
}

TEST(FailureDetector, ComparesCallsInWhateverOrderTheyAreHeard) {
  FailureDetector judge = judge_of(3);
  const CallRecord same[] = {sum_of(1), sum_of(2), sum_of(3)};
  const CallRecord other[] = {sum_of(2), sum_of(4)};
  judge.hear_calls(2, 1, same);
  judge.hear_calls(0, 1, {same, 1});
  EXPECT_FALSE(judge.verdict(0));
  judge.hear_calls(0, 2, other);
  const auto found = judge.verdict(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, Status::kInvalidUsage);
  EXPECT_EQ(found->culprit, 0);
  EXPECT_EQ(found->sequence, 3u);
  EXPECT_NE(found->text.find("in call 3, rank 0 called AllReduce(count 4"), std::string::npos)
      << found->text;
  EXPECT_FALSE(judge.verdict(0)) << "one verdict is enough";
}

TEST(FailureDetector, LeavesCallsAloneThatAreTooFarApart) {
  FailureDetector judge = judge_of(2);
  for (std::uint64_t n = 1; n <= FailureDetector::kWindow + 5; ++n) {
    const CallRecord call = sum_of(n);
    judge.hear_calls(0, n, {&call, 1});
  }
  const CallRecord call = sum_of(77);
  judge.hear_calls(1, 5, {&call, 1});
  EXPECT_FALSE(judge.verdict(0));
  judge.hear_calls(1, 6, {&call, 1});
  EXPECT_TRUE(judge.verdict(0));
}

TEST(FailureDetector, NamesReplaysThatDiffer) {
  FailureDetector judge = judge_of(2);
  judge.hear(0, in_launch(4, 100), 0);
  judge.hear(1, in_launch(5, 200), 0);
  EXPECT_FALSE(judge.verdict(0)) << "different launches";
  judge.hear(0, in_launch(5, 100), 0);
  const auto found = judge.verdict(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, Status::kInvalidUsage);
  EXPECT_NE(found->text.find("count 200"), std::string::npos) << found->text;
}

TEST(FailureDetector, BlamesWhoEndedOnlyForWhatItLeftUndone) {
  FailureDetector judge = judge_of(3);
  Standing over = in_launch(3);
  over.inside = 0;
  judge.hear(1, over, 0);
  judge.hear_end(1, 0);
  judge.hear(0, in_launch(3), 0);
  judge.hear(2, over, 0);
  EXPECT_FALSE(judge.verdict(10 * kSecond)) << "rank 1 had done its part";
  judge.hear(0, in_launch(4), 11 * kSecond);
  EXPECT_FALSE(judge.verdict(11 * kSecond)) << "news may be on their way";
  const auto found = judge.verdict(12 * kSecond);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, Status::kRemoteError);
  EXPECT_EQ(found->culprit, 1);
  EXPECT_NE(found->text.find("rank 1 (pid 7) ended"), std::string::npos) << found->text;
}

TEST(FailureDetector, WaitsWhileAnythingMoves) {
  FailureDetector judge = judge_of(2);
  judge.hear_end(1, 0);
  for (int second = 1; second < 10; ++second) {
    Standing moving = in_launch(1);
    moving.traffic = static_cast<std::uint64_t>(second);
    judge.hear(0, moving, second * kSecond);
    EXPECT_FALSE(judge.verdict(second * kSecond + kSecond / 10));
  }
  EXPECT_TRUE(judge.verdict(11 * kSecond));
}

TEST(FailureDetector, NamesWhoNeverCameRatherThanWhoKeptTheKernelWaiting) {
  FailureDetector judge = judge_of(3);
  judge.hear(1, in_launch(2), 0);
  Standing waited = in_launch(2);
  waited.gave_up = 1;
  waited.peer = 1;
  waited.limit_millis = 2500;
  judge.hear(0, waited, 0);
  const auto found = judge.verdict(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, Status::kTimeout);
  EXPECT_EQ(found->culprit, 2);
  EXPECT_NE(found->text.find("waited 2.5 s"), std::string::npos) << found->text;
  EXPECT_NE(found->text.find("rank 2 did not make this call"), std::string::npos) << found->text;
}

}  // namespace
}  // namespace rondo::gpu
