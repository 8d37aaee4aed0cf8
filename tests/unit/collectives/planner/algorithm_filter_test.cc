// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/algorithm_filter.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/planner/planner.h"

namespace rondo {
namespace {

std::uint16_t bits(std::initializer_list<Algorithm> algorithms) {
  unsigned all = 0;
  for (const Algorithm algorithm : algorithms) all |= 1u << static_cast<int>(algorithm);
  return static_cast<std::uint16_t>(all);
}

AlgorithmFilter parsed(std::string_view text) {
  auto filter = parse_algorithms(text, "NCCL_ALGO");
  EXPECT_TRUE(filter.ok()) << text << ": " << filter.error().text;
  return filter.ok() ? *filter : AlgorithmFilter{};
}

PlanFacts four_ranks() {
  PlanFacts facts;
  facts.ranks = 4;
  facts.slot_bytes = 512 << 10;
  facts.connection_slot_bytes = facts.link_slot_bytes = 128 << 10;
  return facts;
}

TEST(AlgorithmFilter, AListWithoutAFunctionStandsForAllThatHaveNoneOfTheirOwn) {
  const AlgorithmFilter filter = parsed("Ring, tree; allreduce: ^ring");
  const auto all_but_ring =
      static_cast<std::uint16_t>(AlgorithmFilter::kUsual & ~bits({Algorithm::kRing}));
  EXPECT_EQ(filter.of(Collective::kAllReduce), all_but_ring);
  EXPECT_EQ(filter.of(Collective::kBroadcast), bits({Algorithm::kRing, Algorithm::kTree}));
  EXPECT_EQ(filter.of(Collective::kReduceScatter), bits({Algorithm::kRing, Algorithm::kTree}));
}

TEST(AlgorithmFilter, AFunctionThatNoListSpeaksOfKeepsEveryAlgorithm) {
  const AlgorithmFilter filter = parsed("allreduce:tree");
  EXPECT_EQ(filter.of(Collective::kAllReduce), bits({Algorithm::kTree}));
  EXPECT_EQ(filter.of(Collective::kAllGather), AlgorithmFilter::kUsual);
}

TEST(AlgorithmFilter, WhatHasOneAlgorithmAlwaysRuns) {
  for (const Collective only : {Collective::kBarrier, Collective::kAllToAll, Collective::kGather})
    EXPECT_TRUE(parsed("ring").allows(only, Algorithm::kDirect));
  PlanFacts facts = four_ranks();
  facts.algorithms = parsed("ring");
  CallRecord barrier;
  barrier.collective = Collective::kBarrier;
  EXPECT_TRUE(make_plan(facts, barrier).ok());
}

TEST(AlgorithmFilter, NamesThatOnlyNcclHasSelectAndExcludeNothing) {
  EXPECT_EQ(parsed("^NVLS,NVLSTree").of(Collective::kAllReduce), AlgorithmFilter::kUsual);
  EXPECT_EQ(parsed("PAT").of(Collective::kAllReduce), AlgorithmFilter::kUsual);
  EXPECT_EQ(parsed("pat,ring").of(Collective::kAllReduce), bits({Algorithm::kRing}));
  EXPECT_EQ(parsed("").of(Collective::kReduce), AlgorithmFilter::kUsual);
}

TEST(AlgorithmFilter, NvlsRunsWhereItIsNamedAndServesFewCalls) {
  const std::uint16_t nvls = bits({Algorithm::kNvls});
  EXPECT_EQ(parsed("nvls").of(Collective::kAllReduce), AlgorithmFilter::kAll);
  EXPECT_EQ(parsed("nvls,ring").of(Collective::kAllReduce), nvls | bits({Algorithm::kRing}));
  EXPECT_EQ(parsed("allgather:nvls").of(Collective::kAllReduce), AlgorithmFilter::kUsual);
  EXPECT_EQ(parsed("^ring").of(Collective::kAllReduce) & nvls, 0);
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  EXPECT_EQ(algorithms_of_environment()->of(Collective::kAllReduce), AlgorithmFilter::kAll);
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("NCCL_ALGO", "nvls", 1);
  EXPECT_EQ(algorithms_of_environment()->of(Collective::kAllReduce), AlgorithmFilter::kUsual);
  unsetenv("NCCL_NVLS_ENABLE");
  unsetenv("NCCL_ALGO");
}

TEST(AlgorithmFilter, ACallLeavesNvlsToItsCommunicatorUnlessItSpeaksOfIt) {
  EXPECT_EQ(*excluded_by("^ring", Collective::kAllReduce), bits({Algorithm::kRing}));
  EXPECT_EQ(*excluded_by("nvls", Collective::kAllReduce), 0);
  EXPECT_EQ(*excluded_by("ring", Collective::kAllReduce),
            AlgorithmFilter::kAll & ~bits({Algorithm::kRing}));
}

TEST(AlgorithmFilter, AWrongNameIsNamedWithWhatThereIs) {
  const auto word = parse_algorithms("ring,rign", "NCCL_ALGO");
  ASSERT_FALSE(word.ok());
  EXPECT_EQ(word.error().text,
            fmt::format("NCCL_ALGO='ring,rign': 'rign' is not an algorithm; Rondo has {}",
                        fmt::join(kAlgorithmNames, ", ")));
  const auto function = parse_algorithms("alltoall:ring", "algSelection");
  ASSERT_FALSE(function.ok());
  EXPECT_THAT(function.error().text, testing::HasSubstr("'alltoall' is not a function"));
}

TEST(AlgorithmFilter, ACallExcludesAlgorithmsForItselfAlone) {
  const PlanFacts facts = four_ranks();
  CallRecord record;
  record.collective = Collective::kAllReduce;
  record.type = DataType::kFloat32;
  record.count = 1 << 20;
  const auto plan_without = [&](std::initializer_list<Algorithm> excluded) {
    record.excluded = bits(excluded);
    return make_plan(facts, record);
  };
  EXPECT_EQ(plan_without({})->algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(plan_without({Algorithm::kTwoShot})->algorithm, Algorithm::kOneShot);
  EXPECT_EQ(plan_without({Algorithm::kTwoShot, Algorithm::kOneShot})->algorithm, Algorithm::kRing);
  record.excluded = AlgorithmFilter::kAll;
  EXPECT_FALSE(make_plan(facts, record).ok());
}

// The mask shares a word with the root.
TEST(AlgorithmFilter, ARecordKeepsItsFieldsWhateverItExcludes) {
  for (const int root : {-1, 0, (1 << 20) - 1, -(1 << 27)}) {
    CallRecord record{7, Collective::kReduce, DataType::kUint16, RedOp::kPreMulSum, 0, root};
    const CallRecord open = record;
    record.excluded = (1 << CallRecord::kMaxAlgorithms) - 1;
    EXPECT_NE(record, open);
    EXPECT_EQ(record.op, RedOp::kPreMulSum);
    EXPECT_EQ(record.root, root);
    std::int32_t word = 0;  // as kernels read it
    std::memcpy(&word, reinterpret_cast<const std::byte*>(&record) + CallRecord::kRootWordAt,
                sizeof(word));
    EXPECT_EQ(word >> CallRecord::kRootShift, root);
  }
}

TEST(AlgorithmFilter, AReduceFallsBackToTheAlgorithmThatIsLeft) {
  PlanFacts facts = four_ranks();
  CallRecord record;
  record.collective = Collective::kReduce;
  record.type = DataType::kFloat32;
  record.root = 0;
  for (const std::uint64_t count : {1u, 1u << 20}) {
    record.count = count;
    facts.algorithms = parsed("reduce:direct");
    EXPECT_EQ(make_plan(facts, record)->algorithm, Algorithm::kDirect);
    facts.algorithms = parsed("reduce:oneshot");
    EXPECT_EQ(make_plan(facts, record)->algorithm, Algorithm::kOneShot);
  }
}

}  // namespace
}  // namespace rondo
