// SPDX-License-Identifier: Apache-2.0
// The diagnosis names the rank that a hung job waits for, and nobody in a job that makes progress.
#include "collectives/status/diagnosis.h"

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

TEST(JobViews, PassThroughJsonAndRefuseWhatNoProcessSends) {
  JobView job = job_of({rank_in_call(0, 5, 1, 3), rank_in_call(1, 4)});
  job.communicators[0].hash = 0xfedcba9876543210;
  job.communicators[0].ranks[0].counts = {5, 4, 3, 2, 1};
  job.processes.push_back({101, 1001, "a", "python train.py", "job"});
  const std::string text = job.to_json().text(-1);
  const auto back = JobView::from_json(text);
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back->to_json().text(-1), text);
  for (std::size_t length = 0; length < text.size(); length += 7)
    EXPECT_FALSE(JobView::from_json(text.substr(0, length)).ok()) << length;
  std::string wrong = text;
  wrong.replace(wrong.find("\"rank\":0"), 8, "\"rank\":9e9");
  EXPECT_FALSE(JobView::from_json(wrong).ok());
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
