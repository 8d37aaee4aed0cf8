// SPDX-License-Identifier: Apache-2.0
// Number of times that a Waiter spins and yields, observed through atomics that count; how often
// poll_until() looks.
#include "base/wait.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/poll_until.h"
#include "tests/support/stepped_clock.h"

namespace rondo {
namespace {

struct CountingAtomics : DoorbellAtomics {
  static inline int relaxes = 0, yields = 0, sleeps = 0;
  static inline std::int64_t clock = 0, yield_ns = 300, sleep_ns = 20'000;
  static std::int64_t now() { return clock; }
  static void relax() { ++relaxes; }
  static void yield() {
    ++yields;
    clock += yield_ns;
  }
  static inline std::uint32_t expected = 0;
  static inline std::int64_t at_most = 0;
  static void wait(std::uint32_t&, std::uint32_t seen, std::int64_t nanoseconds) {
    ++sleeps;
    expected = seen;
    at_most = nanoseconds;
    clock += sleep_ns;
  }
};

class WaiterBudget : public testing::Test {
 protected:
  WaiterBudget() : waiter_(&parked_, &bell_) {
    waiter_.set_budget({4000, 200});
    CountingAtomics::yield_ns = 300;
    CountingAtomics::sleep_ns = 20'000;
  }

  // Waits until over() holds, and counts the turns.
  template <class Over>
  void wait(Over over) {
    CountingAtomics::relaxes = CountingAtomics::yields = CountingAtomics::sleeps = 0;
    CountingAtomics::expected = 0;
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

TEST_F(WaiterBudget, HardlyYieldsWhereAnotherProgramTakesTheTurns) {
  CountingAtomics::yield_ns = 3'000'000;
  int yields = 0;
  for (int i = 0; i < 1000; ++i) {
    wait(slept);
    yields += CountingAtomics::yields;
  }
  EXPECT_GT(yields, 1);
  EXPECT_LT(yields, 10);
  CountingAtomics::yield_ns = 300;
  for (int i = 0; i < 1100; ++i) wait(slept);
  for (int i = 0; i < 10; ++i) {
    wait(slept);
    EXPECT_GT(CountingAtomics::yields, 0);
  }
}

// A yield that took a turn, and after which the data was there, is no sign of a peer on this core.
TEST_F(WaiterBudget, KeepsItsSpinsWhereAnotherProgramTookATurn) {
  CountingAtomics::yield_ns = 3'000'000;
  wait(yielded);
  wait(slept);
  EXPECT_GT(CountingAtomics::relaxes, 3900);
}

class WaiterAlone : public WaiterBudget {
 protected:
  WaiterAlone() { waiter_.set_budget({}); }
  // The number of spins after waits that parked for this time.
  int spins_after(int waits, std::int64_t park_ns) {
    CountingAtomics::sleep_ns = park_ns;
    for (int i = 0; i <= waits; ++i) wait(slept);
    EXPECT_EQ(CountingAtomics::yields, 0);
    return CountingAtomics::relaxes;
  }
};

TEST_F(WaiterAlone, SpinsLessAfterLongParks) {
  EXPECT_GT(spins_after(0, 3'000'000), 3900);
  const int few = spins_after(20, 3'000'000);
  EXPECT_LE(few, 500);
  EXPECT_GE(few, 400);
}

TEST_F(WaiterAlone, SpinsLittleWhereThePeerRanOnceThisRankParked) {
  EXPECT_LT(spins_after(20, 1'000), 100);
}

TEST_F(WaiterAlone, SpinsLongerWhereThatWouldHaveBeenEnough) {
  EXPECT_LT(spins_after(20, 1'000), 100);
  EXPECT_GT(spins_after(20, 100'000), 3900);
}

// Else a fault that rang before the wait would be seen only after the first sleep.
TEST_F(WaiterAlone, AsksItsSupervisorBeforeEachPark) {
  bell_ = 7;
  int asked = 0;
  waiter_.set_supervisor({&asked, [](void* self, const WaitSite&, bool first) {
                            int& times = *static_cast<int*>(self);
                            EXPECT_EQ(first, times == 0);
                            EXPECT_EQ(CountingAtomics::sleeps, times);
                            EXPECT_EQ(CountingAtomics::expected, times == 0 ? 0U : 7U);
                            ++times;
                            return true;
                          }});
  wait([] { return CountingAtomics::sleeps == 3; });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(CountingAtomics::expected, 7U);
}

// A rank that drives a network returns to it soon, even if no rank rings, and asks its supervisor
// before it parks.
TEST_F(WaiterAlone, ParksBrieflyWhereItsNetworkHasNothingToDo) {
  struct Turns {
    int busy, asked = 0, driven = 0;
  };
  for (const int busy : {0, 5}) {
    Turns turns{busy};
    BasicWaiter<CountingAtomics>::Supervisor driver{.self = &turns};
    driver.keep_waiting = [](void* self, const WaitSite&, bool) {
      EXPECT_EQ(CountingAtomics::sleeps, 0);
      return ++static_cast<Turns*>(self)->asked > 0;
    };
    driver.suspend = [](void* self, const WaitSite& site, bool fresh) {
      Turns& now = *static_cast<Turns*>(self);
      EXPECT_EQ(site.peer, -1);
      EXPECT_EQ(fresh, now.driven == 0);
      return ++now.driven > now.busy;
    };
    waiter_.set_supervisor(driver);
    bell_ = 7;
    wait(slept);
    EXPECT_EQ(turns.driven, busy == 0 ? 2 : 6);
    EXPECT_EQ(turns.asked, turns.driven - 1);
    EXPECT_EQ(CountingAtomics::expected, bell_);
    EXPECT_LE(CountingAtomics::at_most, 1'000'000);
  }
  EXPECT_EQ(CountingAtomics::yields, 0);
  EXPECT_EQ(CountingAtomics::relaxes, 0);
}

// ---- poll_until(), by a clock of this thread's own ----

// Each look advances the clock by one step.
TEST(PollUntil, LooksUntilItsDeadlineAndNotOnceMore) {
  constexpr std::chrono::milliseconds kStep{20}, kLimit{200};
  const test::SteppedClock clock(kStep);
  int looks = 0;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(poll_until([&] { return ++looks, false; }, begun + kLimit));
  EXPECT_EQ(looks, kLimit / kStep + 1);
}

TEST(PollUntil, TakesWhatHoldsAtItsDeadline) {
  constexpr std::chrono::milliseconds kStep{20};
  const test::SteppedClock clock(kStep);
  bool passed = false;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(poll_until([&] { return std::exchange(passed, true); }, begun + kStep));
}

}  // namespace
}  // namespace rondo
