// SPDX-License-Identifier: Apache-2.0
// Number of times that a Waiter spins and yields, observed through atomics that count.
#include "base/wait.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

struct CountingAtomics : DoorbellAtomics {
  static inline int relaxes = 0, yields = 0, sleeps = 0;
  static void relax() { ++relaxes; }
  static void yield() { ++yields; }
  static void wait(std::uint32_t&, std::uint32_t, std::int64_t) { ++sleeps; }
};

class WaiterBudget : public testing::Test {
 protected:
  WaiterBudget() : waiter_(&parked_, &bell_) { waiter_.set_budget({4000, 200}); }

  // Waits until over() holds, and counts the turns.
  template <class Over>
  void wait(Over over) {
    CountingAtomics::relaxes = CountingAtomics::yields = CountingAtomics::sleeps = 0;
    ASSERT_TRUE(waiter_.until(over, {-1, 0}));
  }
  static bool yielded() { return CountingAtomics::yields > 0; }
  static bool slept() { return CountingAtomics::sleeps > 0; }

  std::uint8_t parked_ = 0;
  std::uint32_t bell_ = 0;
  BasicWaiter<CountingAtomics> waiter_;
};

TEST_F(WaiterBudget, SpinsLittleWhereThePeerNeedsThisCore) {
  wait(yielded);
  EXPECT_GT(CountingAtomics::relaxes, 1000);
  for (int i = 0; i < 20; ++i) wait(yielded);
  EXPECT_LT(CountingAtomics::relaxes, 100);
  EXPECT_EQ(CountingAtomics::yields, 1);
}

TEST_F(WaiterBudget, SpinsLongAgainOnceSpinningIsEnough) {
  for (int i = 0; i < 20; ++i) wait(yielded);
  int turns = 0;
  for (int i = 0; i < 20; ++i) wait([&] { return ++turns % 8 == 0; });
  wait(yielded);
  EXPECT_GT(CountingAtomics::relaxes, 1000);
}

TEST_F(WaiterBudget, YieldsLittleWhereOnlySleepHelps) {
  wait(slept);
  EXPECT_EQ(CountingAtomics::yields, 200);
  for (int i = 0; i < 20; ++i) wait(slept);
  EXPECT_LT(CountingAtomics::yields, 20);
  EXPECT_GT(CountingAtomics::yields, 0);
}

TEST_F(WaiterBudget, SpinsOnWhereThePeerIsOnlyLate) {
  for (int i = 0; i < 20; ++i) wait([] { return CountingAtomics::yields == 10; });
  EXPECT_GT(CountingAtomics::relaxes, 1000);
}

TEST_F(WaiterBudget, SpinsNotAtAllWhereAnotherRankNeedsThisCore) {
  CountingAtomics::relaxes = CountingAtomics::yields = 0;
  ASSERT_TRUE(waiter_.until(yielded, {.peer = 0, .step = 0, .core_is_wanted = true}));
  EXPECT_EQ(CountingAtomics::relaxes, 0);
  EXPECT_EQ(CountingAtomics::yields, 1);
  wait(yielded);  // learnt nothing about waits for other cores
  EXPECT_GT(CountingAtomics::relaxes, 1000);
}

}  // namespace
}  // namespace rondo
