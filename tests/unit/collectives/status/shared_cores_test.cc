// SPDX-License-Identifier: Apache-2.0
// Ranks that share a CPU are named, with their host and the remedy.
#include "collectives/status/job_view.h"

#include <gtest/gtest.h>

namespace rondo::test {
namespace {

// Ranks on host memory of one host, on these CPUs.
CommunicatorView ranks_on(const std::vector<int>& cpus) {
  CommunicatorView view;
  for (std::size_t r = 0; r < cpus.size(); ++r)
    view.ranks.push_back({.rank = static_cast<int>(r),
                          .pid = 100 + static_cast<int>(r),
                          .host = "node1",
                          .call = 5,
                          .core = cpus[r]});
  return view;
}

JobView job_of(std::vector<CommunicatorView> communicators) {
  JobView view;
  view.communicators = std::move(communicators);
  return view;
}

TEST(SharedCpus, NamesTheRanksOfEachCpu) {
  const auto found = shared_cores(job_of({ranks_on({3, 1, 3, 1, 0})}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(found[1].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(found[1].cpu, 3);
  EXPECT_EQ(found[1].text,
            "ranks 0, 2 made their newest calls on CPU 3 of host node1: if that lasts, they take "
            "turns on it");
}

TEST(SharedCpus, NamesNoneWhereEachRankHasItsOwn) {
  EXPECT_TRUE(shared_cores(job_of({ranks_on({0, 1, 2})})).empty());
  EXPECT_TRUE(shared_cores(job_of({ranks_on({-1, -1})})).empty()) << "unknown";
  CommunicatorView others = ranks_on({1, 1, 1, 1, 1});
  others.ranks[0].host = "node2";
  others.ranks[1].device = 0;
  others.ranks[2].state = "ended";
  others.ranks[3].call = 0;
  EXPECT_TRUE(shared_cores(job_of({others})).empty());
}

TEST(SharedCpus, NamesACpuOnceThoughItsRanksHaveSeveralCommunicators) {
  EXPECT_EQ(shared_cores(job_of({ranks_on({2, 2}), ranks_on({2, 2})})).size(), 1u);
}

TEST(SharedCpus, ShowsTheFirstOfManyRanks) {
  const auto found = shared_cores(job_of({ranks_on(std::vector<int>(10, 4))}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text.find("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more made"), 0u);
}

}  // namespace
}  // namespace rondo::test
