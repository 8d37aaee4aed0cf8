// SPDX-License-Identifier: Apache-2.0
// Ranks of another library: for whom their kernels wait is found by comparing all ranks.
#include "collectives/status/watched_ranks.h"

#include <gtest/gtest.h>

#include "collectives/status/diagnosis.h"

namespace rondo::test {
namespace {

const char* const kCall = "AllReduce(count 4, float32)";

// In call `point`, of `entered` calls.
RankView watched_rank(int rank, std::uint64_t point, const char* phase, double seconds = 0,
                      std::uint64_t entered = 0) {
  RankView view;
  view.rank = rank;
  view.pid = 100 + rank;
  view.process = static_cast<std::uint64_t>(1000 + rank);
  view.host = "a";
  view.call = std::max(point, entered);
  view.finished = point - 1;
  view.in_kernel = std::string_view(phase) == "in_kernel";
  view.waits_seconds = seconds;
  view.waits_in = kCall;
  view.watched.emplace().phase = phase;
  for (std::uint64_t call = point - 2; call <= point; ++call) view.watched->calls[call] = kCall;
  return view;
}
RankView idle_rank(int rank, std::uint64_t finished) {
  RankView view = watched_rank(rank, finished, "idle");
  view.finished = finished;
  return view;
}

std::vector<Blame> blamed_of(std::vector<RankView> ranks, int size = 0) {
  JobView job;
  CommunicatorView& communicator = job.communicators.emplace_back();
  communicator.hash = 7;
  communicator.size = size == 0 ? static_cast<int>(ranks.size()) : size;
  communicator.ranks = std::move(ranks);
  find_awaited(&job);
  return diagnose(job);
}

// In a kernel of messages. Each of them: the other rank, sends begun and ended, receives alike.
RankView messages_of(int rank, std::map<int, WatchedView::Messages> messages, double seconds = 3) {
  RankView view = watched_rank(rank, 5, "in_kernel", seconds);
  view.in_message = true;
  view.waits_in = "a group of messages";
  view.watched->messages = std::move(messages);
  return view;
}
// As many as these have ended before.
RankView after_messages(int rank, std::map<int, WatchedView::Messages> messages) {
  RankView view = idle_rank(rank, 4);
  view.watched->messages = std::move(messages);
  return view;
}

TEST(WatchedRanks, WaitForTheOneThatHasNotBegunItsPartOfAnyMessage) {
  const auto blamed = blamed_of({messages_of(0, {{1, {7, 6, 7, 6}}, {2, {7, 6, 7, 6}}}),
                                 messages_of(1, {{0, {7, 6, 7, 6}}, {2, {7, 6, 7, 6}}}),
                                 after_messages(2, {{0, {6, 6, 6, 6}}, {1, {6, 6, 6, 6}}})});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 2);
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered);
  EXPECT_EQ(blamed[0].waiters, 2);
}

// 0 <-> 1 <-> 2 <-> 3: rank 3 has not come, 0 has ended its part with 1. Rank 4 waits in another
// kernel for rank 1.
TEST(WatchedRanks, WaitForNoneWhoseMessagesHaveEnded) {
  const auto blamed =
      blamed_of({after_messages(0, {{1, {1, 1, 1, 1}}}),
                 messages_of(1, {{0, {1, 0, 1, 0}}, {2, {1, 0, 1, 0}}}),
                 messages_of(2, {{1, {1, 0, 1, 0}}, {3, {1, 0, 1, 0}}}),
                 after_messages(3, {{2, {0, 0, 0, 0}}}), messages_of(4, {{1, {0, 0, 1, 0}}})});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 3);
  EXPECT_EQ(blamed[0].waiters, 3) << "rank 4 waits for 1, and 1 for 3 in the end";
}

TEST(WatchedRanks, CountMessagesModulo256) {
  const auto blamed = blamed_of({messages_of(0, {{1, {2, 1, 0, 0}}, {2, {9, 8, 0, 0}}}),
                                 after_messages(1, {{0, {0, 0, 2, 2}}}),
                                 after_messages(2, {{0, {0, 0, 250, 250}}})});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 2);
}

TEST(WatchedRanks, WaitInAGroupOfMessagesThatAllHaveBegunForNobody) {
  EXPECT_TRUE(blamed_of({messages_of(0, {{1, {7, 6, 7, 6}}}), messages_of(1, {{0, {7, 6, 7, 6}}})})
                  .empty());
}

// NCCL tells neither when such a call begins nor when it ends.
TEST(WatchedRanks, AreNamedLateForACallThatNobodySeesEnd) {
  const auto unseen = [](int rank, std::uint64_t point, double seconds) {
    RankView view = watched_rank(rank, point, "unseen");
    view.watched->unseen_seconds = seconds;
    return view;
  };
  EXPECT_TRUE(blamed_of({unseen(0, 12, 60), unseen(1, 12, 60)}).empty()) << "it may have ended";
  EXPECT_TRUE(blamed_of({unseen(0, 12, 9), idle_rank(1, 11)}).empty());
  const auto blamed = blamed_of({unseen(0, 12, 11), idle_rank(1, 11)});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 1);
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered);
  // A kernel behind it shows that it has ended.
  const auto behind = blamed_of({watched_rank(0, 13, "in_kernel", 3), unseen(1, 12, 2)});
  ASSERT_EQ(behind.size(), 1u);
  EXPECT_EQ(behind[0].rank, 1);
}

TEST(WatchedRanks, ThatLaunchGraphsAreNotComparedByTheirCalls) {
  RankView other = watched_rank(1, 12, "in_kernel", 3);
  other.watched->calls[12] = "Broadcast(count 4, float32)";
  const auto blamed = blamed_of({watched_rank(0, 12, "in_kernel", 3), other});
  ASSERT_FALSE(blamed.empty());
  EXPECT_EQ(blamed[0].kind, Blame::kOtherCall);
  other.watched->has_graphs = true;
  EXPECT_TRUE(blamed_of({watched_rank(0, 12, "in_kernel", 3), other}).empty());
}

TEST(WatchedRanks, WaitForTheOneThatIsLeastFarHoweverFarAheadOthersEnqueue) {
  const auto blamed = blamed_of({watched_rank(0, 12, "in_kernel", 3, 40), idle_rank(1, 11),
                                 watched_rank(2, 12, "in_kernel", 2, 25)});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 1);
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered);
  EXPECT_EQ(blamed[0].text,
            "rank 1 (pid 101 on a) has not entered call 12, AllReduce(count 4, float32) (newest: "
            "call 11, AllReduce(count 4, float32)): 2 ranks wait for it, 3.0 s");
}

// Rank 0's kernel of communicator 1 waits for rank 1's, which is enqueued; a kernel of rank 1 in
// communicator 0 waits for rank 0, which has not entered that call.
std::vector<Blame> blamed_of_two(std::uint64_t order_of_running, std::uint64_t order_of_enqueued,
                                 bool by_message = false) {
  JobView job;
  job.communicators.resize(2);
  for (CommunicatorView& communicator : job.communicators) communicator.size = 2;
  job.communicators[0].ranks = {idle_rank(0, 11), watched_rank(1, 12, "in_kernel", 2)};
  job.communicators[1].ranks = {
      by_message ? messages_of(0, {{1, {7, 6, 7, 6}}}) : watched_rank(0, 12, "in_kernel", 3),
      watched_rank(1, 12, "enqueued")};
  job.communicators[0].ranks[1].watched->order = order_of_running;
  job.communicators[1].ranks[1].watched->order = order_of_enqueued;
  find_awaited(&job);
  return diagnose(job);
}

TEST(WatchedRanks, WaitBehindAKernelOfAnotherCommunicatorOnlyIfThatWasCalledBefore) {
  for (const bool by_message : {false, true}) {
    const auto behind = blamed_of_two(7, 8, by_message);
    ASSERT_FALSE(behind.empty());
    EXPECT_EQ(behind[0].kind, Blame::kCycle) << behind[0].text;
    const auto blocked = blamed_of_two(8, 7, by_message);
    ASSERT_FALSE(blocked.empty());
    EXPECT_EQ(blocked[0].kind, Blame::kLate) << blocked[0].text;
    EXPECT_EQ(blocked[0].rank, 1);
    EXPECT_EQ(blocked[0].waiters, 2);
  }
}

TEST(WatchedRanks, WaitForAKernelThatHasNotBegun) {
  const auto blamed =
      blamed_of({watched_rank(0, 12, "in_kernel", 3), watched_rank(1, 12, "enqueued")});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 1);
  EXPECT_EQ(blamed[0].kind, Blame::kLate);
  EXPECT_NE(blamed[0].text.find("(its kernel has not begun)"), std::string::npos);
}

TEST(WatchedRanks, WaitForOneThatIsGoneBeforeOneThatIsLessFar) {
  RankView ended = watched_rank(2, 12, "in_kernel");
  ended.in_kernel = false;
  ended.state = "ended";
  const auto blamed = blamed_of({watched_rank(0, 12, "in_kernel", 3), idle_rank(1, 11), ended});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 2);
  EXPECT_EQ(blamed[0].kind, Blame::kEnded);
}

TEST(WatchedRanks, AreAccusedOfNothingWhileNoKernelWaitsLong) {
  EXPECT_TRUE(blamed_of({watched_rank(0, 12, "in_kernel", 0.9), idle_rank(1, 11)}).empty());
  EXPECT_TRUE(blamed_of({watched_rank(0, 12, "enqueued"), idle_rank(1, 11)}).empty());
  RankView ended = idle_rank(1, 12);
  ended.state = "ended";
  EXPECT_TRUE(blamed_of({idle_rank(0, 12), ended}).empty());
}

TEST(WatchedRanks, ThatMadeAnotherCallAreNamedByTheMajority) {
  RankView other = watched_rank(2, 12, "in_kernel", 3);
  other.waits_in = other.watched->calls[12] = "Broadcast(count 4, float32, root 1)";
  const auto blamed =
      blamed_of({watched_rank(0, 12, "in_kernel", 3), watched_rank(1, 12, "in_kernel", 3), other});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].kind, Blame::kOtherCall);
  EXPECT_EQ(blamed[0].text,
            "rank 2 (pid 102 on a) made Broadcast(count 4, float32, root 1) as call 12, where 2 "
            "ranks made AllReduce(count 4, float32): 3 ranks wait for it, 3.0 s");
  const auto both = blamed_of({watched_rank(0, 12, "in_kernel", 3), other});
  ASSERT_EQ(both.size(), 2u) << "with as many for each, either may be wrong";
  EXPECT_NE(both[0].rank, both[1].rank);
  other.waits_seconds = 0.5;
  EXPECT_TRUE(blamed_of({watched_rank(0, 12, "in_kernel", 0.5), other}).empty());
}

TEST(WatchedRanks, ThatAreStuckTogetherAreNotNamed) {
  std::vector<RankView> ranks{watched_rank(0, 12, "in_kernel", 11),
                              watched_rank(1, 12, "in_kernel", 12),
                              watched_rank(2, 13, "in_kernel", 12)};
  ranks[1].watched->network_peer = 0;
  ranks[1].watched->network_step = 5;
  const auto blamed = blamed_of(ranks);
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].kind, Blame::kAlike);
  EXPECT_EQ(blamed[0].rank, -1);
  EXPECT_EQ(blamed[0].waiters, 3);
  EXPECT_EQ(
      blamed[0].text,
      "2 of 3 ranks wait alike in call 12, AllReduce(count 4, float32), which the others have "
      "ended: no rank is late; the network of rank 1 waits for step 5 of data from rank 0, "
      "11.0 s");
  for (RankView& rank : ranks) rank.waits_seconds = 9;
  EXPECT_TRUE(blamed_of(ranks).empty()) << "a kernel may take long";
}

TEST(WatchedRanks, OneThatIsStuckAloneIsLate) {
  const auto blamed = blamed_of(
      {watched_rank(0, 13, "in_kernel", 2), idle_rank(1, 12), watched_rank(2, 12, "in_kernel", 3)});
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 2);
  EXPECT_EQ(blamed[0].kind, Blame::kLate);
  EXPECT_NE(blamed[0].text.find("(its kernel has not ended)"), std::string::npos) << blamed[0].text;
}

TEST(WatchedRanks, ReportThatOthersWereNotAsked) {
  const auto blamed =
      blamed_of({watched_rank(0, 12, "in_kernel", 2), watched_rank(1, 12, "in_kernel", 2)}, 4);
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].kind, Blame::kElsewhere);
  EXPECT_EQ(blamed[0].rank, -1);
  EXPECT_NE(blamed[0].text.find("the other 2 of the communicator"), std::string::npos);
}

TEST(WatchedRanks, AreTheSameAsJson) {
  JobView job;
  CommunicatorView& communicator = job.communicators.emplace_back();
  communicator.hash = 7;
  communicator.size = 1;
  communicator.ranks.push_back(watched_rank(0, 12, "in_kernel", 2));
  communicator.ranks[0].watched->network_peer = 3;
  const auto read = JobView::from_json(job.to_json().text(0));
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->to_json().text(0), job.to_json().text(0));
  EXPECT_EQ(read->communicators[0].ranks[0].watched.value().calls.at(12), kCall);
}

}  // namespace
}  // namespace rondo::test
