// SPDX-License-Identifier: Apache-2.0
// The diagnosis names the rank that a hung job waits for, and nobody in a job that makes progress.
#include "collectives/status/diagnosis.h"
#include "collectives/status/watched_ranks.h"

#include <gtest/gtest.h>

namespace rondo::test {
namespace {

RankView rank_in_call(int rank, std::uint64_t call, int waits_for = -1, double seconds = 0) {
  RankView view;
  view.rank = rank;
  view.pid = 100 + rank;
  view.process = static_cast<std::uint64_t>(1000 + rank);
  view.host = "a";
  view.call = call;
  view.finished = call - 1;
  view.waits_for = waits_for;
  view.waits_seconds = seconds;
  view.waits_in = "AllReduce(count 4, float32, sum)";
  return view;
}

JobView job_of(std::vector<RankView> ranks) {
  JobView job;
  CommunicatorView communicator;
  communicator.hash = 7;
  communicator.size = static_cast<int>(ranks.size());
  communicator.ranks = std::move(ranks);
  job.communicators.push_back(std::move(communicator));
  return job;
}

TEST(Diagnosis, NamesTheRankThatHasNotEnteredTheCall) {
  const auto blamed =
      diagnose(job_of({rank_in_call(0, 5, 2, 3), rank_in_call(1, 5, 2, 4), rank_in_call(2, 4)}));
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 2);
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered);
  EXPECT_EQ(blamed[0].text,
            "rank 2 (pid 102 on a) has not entered call 5, AllReduce(count 4, float32, sum): 2 "
            "ranks wait for it, 4.0 s");
}

TEST(Diagnosis, FollowsTheChainOfWaitsToItsEnd) {
  RankView stopped = rank_in_call(3, 5);
  stopped.state = "stopped";
  const auto blamed = diagnose(job_of(
      {rank_in_call(0, 5, 1, 3), rank_in_call(1, 5, 2, 3), rank_in_call(2, 5, 3, 3), stopped}));
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 3);
  EXPECT_EQ(blamed[0].kind, Blame::kStopped);
  EXPECT_EQ(blamed[0].waiters, 3);
}

TEST(Diagnosis, OrdersByTheNumberOfWaiters) {
  RankView late = rank_in_call(4, 5);
  const auto blamed = diagnose(job_of({rank_in_call(0, 5, 4, 2), rank_in_call(1, 5, 3, 9),
                                       rank_in_call(2, 5, 4, 2), rank_in_call(3, 4), late}));
  ASSERT_EQ(blamed.size(), 2u);
  EXPECT_EQ(blamed[0].rank, 4);
  EXPECT_EQ(blamed[0].kind, Blame::kLate);
  EXPECT_EQ(blamed[1].rank, 3);
}

TEST(Diagnosis, AccusesNoRankOfShortWaitsNorOneThatEndedAfterItsCalls) {
  RankView ended = rank_in_call(2, 5);
  ended.state = "ended";
  RankView stopped = rank_in_call(3, 5);
  stopped.state = "stopped";
  EXPECT_TRUE(
      diagnose(job_of({rank_in_call(0, 5, 1, 0.9), rank_in_call(1, 4), ended, stopped})).empty());
}

// Rank 1 is late in its first communicator because its process waits in the second one.
TEST(Diagnosis, ContinuesInTheCommunicatorInWhichALateProcessWaits) {
  JobView job = job_of({rank_in_call(0, 5, 1, 3), rank_in_call(1, 4)});
  RankView other = rank_in_call(0, 9, 1, 3), culprit = rank_in_call(1, 8);
  other.process = 1001;
  culprit.process = 1009;
  CommunicatorView second;
  second.hash = 8;
  second.name = "tensor";
  second.size = 2;
  second.ranks = {other, culprit};
  job.communicators.push_back(second);
  const auto blamed = diagnose(job);
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].communicator, 1u);
  EXPECT_EQ(blamed[0].rank, 1);
  EXPECT_EQ(blamed[0].waiters, 2);
}

TEST(Diagnosis, NamesTheCulpritOfAFaultAndOneMemberOfACycle) {
  RankView survivor = rank_in_call(0, 5), dead = rank_in_call(1, 4);
  survivor.faulted = true;
  survivor.culprit = 1;
  survivor.fault = "rank 1 (pid 101 on a) ended before it finished call 5";
  dead.state = "ended";
  const auto blamed = diagnose(job_of({survivor, dead}));
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].kind, Blame::kEnded);
  EXPECT_NE(blamed[0].text.find("has ended: rank 1 (pid 101 on a) ended before"), std::string::npos)
      << blamed[0].text;

  const auto cycle = diagnose(
      job_of({rank_in_call(0, 5, 1, 3), rank_in_call(1, 4, 2, 3), rank_in_call(2, 5, 0, 3)}));
  ASSERT_EQ(cycle.size(), 1u);
  EXPECT_EQ(cycle[0].kind, Blame::kCycle);
  EXPECT_EQ(cycle[0].rank, 1);
}

// Ranks of `world` in groups data and tensor, which all of them have: 0 and 1 wait in the first
// one, 2 and 3 in the second one, each for ranks that wait in the other.
JobView crossed_job() {
  JobView job =
      job_of({rank_in_call(0, 3), rank_in_call(1, 3), rank_in_call(2, 3), rank_in_call(3, 3)});
  job.communicators[0].name = "world";
  CommunicatorView data, tensor;
  data.hash = 8, tensor.hash = 9;
  data.name = "data", tensor.name = "tensor";
  data.size = tensor.size = 4;
  // Their numbers there run backwards.
  data.ranks = {rank_in_call(0, 5), rank_in_call(1, 5), rank_in_call(2, 6, 1, 3),
                rank_in_call(3, 6, 0, 4)};
  tensor.ranks = {rank_in_call(0, 8, 3, 3), rank_in_call(1, 8, 2, 3), rank_in_call(2, 7),
                  rank_in_call(3, 7)};
  for (CommunicatorView* group : {&data, &tensor})
    for (RankView& rank : group->ranks) {
      rank.pid = 103 - rank.rank;
      rank.process = static_cast<std::uint64_t>(1003 - rank.rank);
    }
  job.communicators.push_back(data);
  job.communicators.push_back(tensor);
  return job;
}

TEST(Diagnosis, ReportsTheOrderInWhichRanksEnteredTwoGroups) {
  JobView job = crossed_job();
  const auto blamed = diagnose(job);
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].kind, Blame::kCycle);
  EXPECT_EQ(blamed[0].waiters, 4);
  EXPECT_EQ(blamed[0].text,
            "ranks entered data and tensor in different order: 0, 1 first data; 2, 3 first tensor: "
            "4 ranks wait for each other, 4.0 s");
  // Without the group of all, and without names, and as a host reads it from shared memory.
  job.communicators.erase(job.communicators.begin());
  for (CommunicatorView& group : job.communicators) {
    group.name.clear();
    for (RankView& rank : group.ranks) rank.process = 0;
  }
  const auto unnamed = diagnose(job);
  ASSERT_EQ(unnamed.size(), 1u);
  EXPECT_TRUE(unnamed[0].text.starts_with("ranks entered 0x8 and 0x9 in different order: "))
      << unnamed[0].text;
}

TEST(Diagnosis, NamesTheRankWhoseCallDiffers) {
  std::vector<RankView> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(rank_in_call(rank, 5));
    ranks.back().faulted = true;
    ranks.back().culprit = 0;  // rank 2 found it, and named the first one that differs from it
    ranks.back().fault = "rank 2 made AllGather, rank 0 AllReduce";
    ranks.back().fault_by = 2;
    ranks.back().counts = {4, rank == 2, 0, 0, 0};
    ranks.back().fault_call = rank == 2 ? "AllGather" : "AllReduce";
  }
  ranks[1].fault_call = ranks[3].fault_call = "";  // not announced: their counts tell
  const auto blamed = diagnose(job_of(ranks));
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 2);
  EXPECT_EQ(blamed[0].kind, Blame::kFault);
}

// The fault has reached one host; the answer of the other one, where it was found, is older.
TEST(Diagnosis, NamesTheRankWhoseCallDiffersBeforeAllHaveTheFault) {
  std::vector<RankView> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(rank_in_call(rank, rank < 2 ? 9 : 10));
    ranks.back().counts = {rank < 2 ? 9u : 10u, 0, 0, 0, 0};
    if (rank >= 2) continue;
    ranks.back().faulted = true;
    ranks.back().culprit = 2;
    ranks.back().fault_by = 3;
    ranks.back().fault =
        "Mismatched calls: in call 10, rank 2 called AllReduce and rank 3 AllGather";
  }
  ranks[3].counts = {9, 0, 0, 1, 0};
  ranks.push_back(rank_in_call(4, 10));
  ranks[4].counts = {10, 0, 0, 0, 0};
  const auto blamed = diagnose(job_of(ranks));
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 3);
}

TEST(Diagnosis, NamesBothRanksOfAMismatchThatNoOtherDecides) {
  std::vector<RankView> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(rank_in_call(rank, rank == 2 ? 4 : 5));
    ranks.back().faulted = true;
    ranks.back().culprit = 0;
    ranks.back().fault_by = 1;
    ranks.back().counts = {4, rank == 1, rank == 2, 0, 0};
    if (rank < 2) ranks.back().fault_call = rank == 1 ? "AllGather" : "AllReduce";
  }
  const auto blamed = diagnose(job_of(ranks));
  ASSERT_EQ(blamed.size(), 2u);
  EXPECT_EQ(blamed[0].rank, 0);
  EXPECT_EQ(blamed[1].rank, 1);
  EXPECT_EQ(blamed[0].waiters, blamed[1].waiters);
}

JobView joining_job(double seconds) {
  RankView waits{.rank = 0, .pid = 100, .state = "joining"};
  waits.waits_seconds = seconds;
  JobView job =
      job_of({waits, {.rank = 2, .state = "not_joined"}, {.rank = 5, .state = "not_joined"}});
  job.communicators[0].size = 6;
  job.communicators[0].joined = 4;
  return job;
}

TEST(Diagnosis, NamesTheRanksThatHaveNotJoinedOnceAnotherHasWaitedLong) {
  EXPECT_TRUE(diagnose(joining_job(1.5)).empty());
  const auto blamed = diagnose(joining_job(3));
  ASSERT_EQ(blamed.size(), 2u);
  EXPECT_EQ(blamed[0].rank, 2);
  EXPECT_EQ(blamed[1].rank, 5);
  EXPECT_EQ(blamed[0].text,
            "rank 2 has not joined (it has not called ncclCommInitRank, or does not reach the "
            "others): 4 ranks wait for it, 3.0 s");
}

// Each of the processes that wait knows only its own rank and what the rendezvous told it.
TEST(JobViews, MergeRanksThatJoin) {
  JobView job = joining_job(3);
  RankView second{.rank = 2, .pid = 102, .state = "joining"};
  JobView other = job_of({second, {.rank = 5, .state = "not_joined"}});
  other.communicators[0].joined = 5;
  job.merge(std::move(other));
  const CommunicatorView& merged = job.communicators[0];
  EXPECT_EQ(merged.joined, 5);
  ASSERT_EQ(merged.ranks.size(), 3u);
  EXPECT_EQ(merged.ranks[1].state, "joining");
  EXPECT_EQ(merged.ranks[2].state, "not_joined");
}

// A host knows how far its own ranks' kernels are; all together show who is behind.
TEST(JobViews, FindTheRankForWhichKernelsOfOtherHostsWait) {
  RankView kernel = rank_in_call(0, 12, -1, 3), behind = rank_in_call(1, 10);
  kernel.in_kernel = true;
  JobView job = job_of({kernel, behind});
  find_awaited(&job);
  EXPECT_EQ(job.communicators[0].ranks[0].waits_for, 1);
  EXPECT_EQ(job.communicators[0].ranks[0].doing,
            "in AllReduce(count 4, float32, sum) on its GPU, waits for rank 1, for 3.0 s");
  const auto blamed = diagnose(job);
  ASSERT_EQ(blamed.size(), 1u);
  EXPECT_EQ(blamed[0].rank, 1);
  EXPECT_EQ(blamed[0].kind, Blame::kNotEntered);
}

TEST(JobViews, PassThroughJsonAndRefuseWhatNoProcessSends) {
  JobView job = job_of({rank_in_call(0, 5, 1, 3), rank_in_call(1, 4)});
  job.communicators[0].hash = 0xfedcba9876543210;
  job.communicators[0].ranks[0].counts = {5, 4, 3, 2, 1};
  job.communicators[0].ranks[0].survivors = 0xfedcba9876543211;
  job.communicators[0].ranks[1].watched = WatchedView{.phase = "unseen",
                                                      .unseen_seconds = 2.5,
                                                      .messages = {{3, {1, 2, 254, 255}}},
                                                      .order = 9,
                                                      .has_graphs = true};
  job.processes.push_back(
      {101, 1001, "a", "python train.py", "job", {{"NCCL_ALGO", "ring"}, {"NCCL_PROTO", ""}}});
  const std::string text = job.to_json().text(-1);
  const auto back = JobView::from_json(text);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->to_json().text(-1), text);
  EXPECT_EQ(back->communicators[0].ranks[0].survivors, 0xfedcba9876543211);
  const WatchedView& watched = back->communicators[0].ranks[1].watched.value();
  EXPECT_EQ(watched.messages.at(3).receives_ended, 255);
  EXPECT_EQ(watched.order, 9u);
  EXPECT_TRUE(watched.has_graphs);
  for (std::size_t length = 0; length < text.size(); length += 7)
    EXPECT_FALSE(JobView::from_json(text.substr(0, length)).ok()) << length;
  std::string wrong = text;
  wrong.replace(wrong.find("\"rank\":0"), 8, "\"rank\":9e9");
  EXPECT_FALSE(JobView::from_json(wrong).ok());
  for (const char* messages : {"[3,1,2,254,256]", "[-1,1,2,3,4]", "[3,1,2,3]"}) {
    wrong = text;
    wrong.replace(wrong.find("[3,1,2,254,255]"), 15, messages);
    EXPECT_FALSE(JobView::from_json(wrong).ok()) << messages;
  }
}

TEST(JobViews, MergeRanksOfSeveralProcesses) {
  JobView job = job_of({rank_in_call(0, 5), rank_in_call(2, 5)});
  JobView other = job_of({rank_in_call(1, 5), rank_in_call(2, 9)});
  job.merge(std::move(other));
  ASSERT_EQ(job.communicators.size(), 1u);
  ASSERT_EQ(job.communicators[0].ranks.size(), 3u);
  EXPECT_EQ(job.communicators[0].ranks[1].rank, 1);
  EXPECT_EQ(job.communicators[0].ranks[2].call, 5u);  // what is known stays
}

}  // namespace
}  // namespace rondo::test
