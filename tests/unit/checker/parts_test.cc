// SPDX-License-Identifier: Apache-2.0
// The parts of the checker: expressions, vector clocks, and memory that records its accesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checker/expressions.h"

namespace rondo::check {
namespace {

using testing::HasSubstr;

TEST(Expressions, AreEqualOnlyIfBuiltAlike) {
  Expressions pool;
  const Expr a = pool.input(0, 0, 5), b = pool.input(0, 1, 5), c = pool.input(0, 2, 5);
  EXPECT_EQ(pool.combine(a, b), pool.combine(a, b));
  EXPECT_NE(pool.combine(a, b), pool.combine(b, a));
  EXPECT_NE(pool.combine(pool.combine(a, b), c), pool.combine(a, pool.combine(b, c)));
  EXPECT_NE(a, pool.input(1, 0, 5));
  EXPECT_NE(pool.finish(a), a);
  EXPECT_EQ(pool.text(pool.finish(pool.combine(a, b))), "finish(r0[5] + r1[5])");
}

TEST(Expressions, StayTheSameWhileTheTableGrows) {
  Expressions pool;
  std::vector<Expr> first;
  for (int r = 0; r < 100; ++r)
    for (std::uint64_t e = 0; e < 100; ++e) first.push_back(pool.input(0, r, e));
  std::size_t i = 0;
  for (int r = 0; r < 100; ++r)
    for (std::uint64_t e = 0; e < 100; ++e) ASSERT_EQ(pool.input(0, r, e), first[i++]);
  EXPECT_EQ(pool.size(), 100 * 100 + 1u);
}

TEST(Expressions, TheBalancedTreeSplitsAtTheLargestPowerOfTwoBelow) {
  Expressions pool;
  const auto tree = [&](int n) {
    std::vector<Expr> inputs;
    for (int r = 0; r < n; ++r) inputs.push_back(pool.input(0, r, 0));
    return pool.text(balanced_tree(pool, inputs));
  };
  EXPECT_EQ(tree(1), "r0[0]");
  EXPECT_EQ(tree(3), "((r0[0] + r1[0]) + r2[0])");
  EXPECT_EQ(tree(4), "((r0[0] + r1[0]) + (r2[0] + r3[0]))");
  EXPECT_EQ(tree(5), "(((r0[0] + r1[0]) + (r2[0] + r3[0])) + r4[0])");
  EXPECT_EQ(tree(6), "(((r0[0] + r1[0]) + (r2[0] + r3[0])) + (r4[0] + r5[0]))");
  EXPECT_EQ(tree(7), "(((r0[0] + r1[0]) + (r2[0] + r3[0])) + ((r4[0] + r5[0]) + r6[0]))");
}

class ThreeThreads : public testing::Test {
 protected:
  Witness witness_{Clocks(3), {"rank 0", "rank 1", "rank 2"}, {}};
  TrackedMemory memory_{witness_, "the slot", 4};
  Clocks::Snapshot signal_;
};

TEST_F(ThreeThreads, OrderComesFromSignalsAlone) {
  memory_.write(1, 0, 7);
  witness_.clocks.publish(0, signal_);
  witness_.clocks.join(1, 0, signal_);
  EXPECT_EQ(memory_.read(1, 1), 7u);
  EXPECT_TRUE(witness_.verdict.ok());
  memory_.read(1, 2);
  EXPECT_EQ(witness_.verdict.finding,
            "rank 2 reads element 1 of the slot, and no signal orders it after rank 0 writing it");
}

TEST_F(ThreeThreads, WhatFollowsASignalIsNotPartOfIt) {
  witness_.clocks.publish(0, signal_);
  memory_.write(0, 0, 7);
  witness_.clocks.join(1, 0, signal_);
  memory_.write(0, 1, 8);
  EXPECT_THAT(witness_.verdict.finding, HasSubstr("rank 1 overwrites element 0 of the slot"));
}

TEST_F(ThreeThreads, OrderPassesThroughOthers) {
  memory_.write(0, 0, 7);
  witness_.clocks.publish(0, signal_);
  witness_.clocks.join(1, 0, signal_);
  witness_.clocks.publish(1, signal_);
  witness_.clocks.join(2, 1, signal_);
  EXPECT_EQ(memory_.read(0, 2), 7u);
  EXPECT_TRUE(witness_.verdict.ok());
}

TEST_F(ThreeThreads, EveryReaderMustBeWaitedFor) {
  memory_.write(0, 0, 7);
  witness_.clocks.publish(0, signal_);
  Clocks::Snapshot read[3];
  for (const int reader : {1, 2}) {
    witness_.clocks.join(reader, 0, signal_);
    memory_.read(0, reader);
    witness_.clocks.publish(reader, read[reader]);
  }
  witness_.clocks.join(0, 1, read[1]);
  memory_.write(0, 0, 8);
  EXPECT_EQ(witness_.verdict.finding,
            "rank 0 overwrites element 0 of the slot, and no signal orders it after rank 2 "
            "reading it");
}

TEST_F(ThreeThreads, UnwrittenMemoryAndPositionsOutsideAreReported) {
  memory_.read(3, 0);
  EXPECT_EQ(witness_.verdict.finding,
            "rank 0 reads element 3 of the slot, which nobody has written");
  witness_.verdict = {};
  memory_.write(4, 0, 1);
  EXPECT_EQ(witness_.verdict.finding, "rank 0 touches element 4 of the slot, which has 4");
}

}  // namespace
}  // namespace rondo::check
