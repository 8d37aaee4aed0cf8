// SPDX-License-Identifier: Apache-2.0
// What ranks derive from the records of all: the number of threads that share a rank's copies, by
// RONDO_THREADS; the warning where all ranks have one core; whether they wake others without a
// barrier.
#include <gtest/gtest.h>

#include <numeric>

#include "collectives/context/agreed_facts.h"

namespace rondo {
namespace {

// Ranks on one machine: the cores of each rank's mask, named by their number.
std::vector<InitRecord> ranks_with(std::initializer_list<std::int32_t> cores) {
  std::vector<InitRecord> records;
  for (const std::int32_t number : cores) {
    InitRecord record;
    record.machine = 1;
    record.cpu_set = static_cast<std::uint64_t>(number);
    record.cores = number;
    records.push_back(record);
  }
  return records;
}

TEST(RankThreads, AreTheRanksPartOfItsCores) {
  EXPECT_EQ(rank_threads(ranks_with({16}), 0, 0).threads, 16);
  EXPECT_EQ(rank_threads(ranks_with({16, 16, 16}), 1, 0).threads, 5);
  EXPECT_EQ(rank_threads(ranks_with({2, 2, 2}), 2, 0).threads, 1);
  EXPECT_EQ(rank_threads(ranks_with({8, 4, 4}), 0, 0).threads, 8) << "other cores";
  auto records = ranks_with({6, 6});
  records[1].machine = 2;
  EXPECT_EQ(rank_threads(records, 0, 0).threads, 6) << "another machine";
  records[0].device = 0;
  EXPECT_EQ(rank_threads(records, 0, 0).threads, 1) << "a GPU";
}

TEST(RankThreads, AreNoMoreThanAskedForAndNeverMoreThanThePart) {
  const auto records = ranks_with({16, 16});
  EXPECT_EQ(rank_threads(records, 0, 1).threads, 1);
  EXPECT_EQ(rank_threads(records, 0, 3).threads, 3);
  EXPECT_EQ(rank_threads(records, 0, 3).complaint, "");
  EXPECT_EQ(rank_threads(records, 0, 0).complaint, "");
  const RankThreads many = rank_threads(records, 0, 4096);
  EXPECT_EQ(many.threads, 8);
  EXPECT_EQ(many.complaint,
            "RONDO_THREADS=4096: rank 0 uses 8, its part of 16 cores shared by 2 ranks");
  const RankThreads negative = rank_threads(records, 1, -1);
  EXPECT_EQ(negative.threads, 8);
  EXPECT_EQ(negative.complaint, "RONDO_THREADS=-1 is below 0; using 8");
}

TEST(LightStores, NeedEveryRankOfTheHostAndFewOfThem) {
  std::vector<InitRecord> records(66);
  std::vector<int> here(64);
  std::iota(here.begin(), here.end(), 1);
  for (const int rank : here) records[static_cast<std::size_t>(rank)].fences_host = true;
  EXPECT_TRUE(have_light_stores(records, here)) << "ranks of other hosts do not matter";
  here.push_back(65);
  EXPECT_FALSE(have_light_stores(records, here)) << "a rank that cannot fence";
  records[65].fences_host = true;
  EXPECT_FALSE(have_light_stores(records, here)) << "65 ranks";
  here = {1, 65};
  EXPECT_TRUE(have_light_stores(records, here));
}

TEST(OneCore, IsNamedWhereAllRanksOfAHostMayUseOnlyIt) {
  auto records = ranks_with({1, 1, 1});
  const std::vector<int> all = {0, 1, 2};
  const std::string complaint = one_core_complaint(records, all, {5});
  EXPECT_NE(complaint.find("the 3 ranks of this host may use only CPU 5"), std::string::npos);
  EXPECT_NE(complaint.find("--bind-to core"), std::string::npos) << complaint;
  EXPECT_EQ(one_core_complaint(records, std::vector<int>{0}, {5}), "") << "one rank";
  EXPECT_EQ(one_core_complaint(records, all, {5, 6}), "") << "two CPUs";
  records[2].cpu_set = 2;
  EXPECT_EQ(one_core_complaint(records, all, {5}), "") << "bound to a CPU each";
}

}  // namespace
}  // namespace rondo
