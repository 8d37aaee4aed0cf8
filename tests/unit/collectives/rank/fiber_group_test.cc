// SPDX-License-Identifier: Apache-2.0
// Groups of fibers that all wait: how often their thread yields its core, by a clock of its own and
// a sched_yield() that takes as long as the test says.
#include "collectives/rank/fiber_group.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "tests/support/stepped_clock.h"

namespace rondo {
namespace {

thread_local test::SteppedClock* clock_of_yields = nullptr;  // null: yields are real
thread_local std::chrono::nanoseconds yield_takes{};
thread_local int yields = 0;

// Waits of two fibers, on a thread of their own. Each wait lasts this number of rounds.
class FiberWaits {
 public:
  // How often the thread has yielded.
  int yields_of(int waits, int rounds, std::chrono::nanoseconds one_yield) {
    yields = 0;
    yield_takes = one_yield;
    clock_of_yields = &clock_;
    const auto wait = [&] {
      for (int i = 0; i < waits; ++i)
        for (int round = 0; round < rounds; ++round) FiberGroup::current()->suspend(round == 0);
    };
    const FiberGroup::Task tasks[] = {{wait, &parked_, &bell_}, {wait, &parked_, &bell_}};
    FiberGroup::run(tasks);
    clock_of_yields = nullptr;
    return yields;
  }

 private:
  test::SteppedClock clock_{std::chrono::nanoseconds(1)};
  std::uint8_t parked_ = 0;
  std::uint32_t bell_ = 0;
};

TEST(FiberGroup, YieldsWhileAllItsFibersWait) {
  std::thread([] {
    FiberWaits group;
    EXPECT_GT(group.yields_of(10, 50, std::chrono::microseconds(1)), 10 * 40);
  }).join();
}

TEST(FiberGroup, HardlyYieldsWhereAnotherProgramTakesTheTurns) {
  std::thread([] {
    FiberWaits group;
    EXPECT_EQ(group.yields_of(1, 20, std::chrono::milliseconds(2)), 1) << "one turn is lost";
    EXPECT_LE(group.yields_of(100, 20, std::chrono::milliseconds(2)), 4);
  }).join();
}

TEST(FiberGroup, YieldsAgainOnceItsTurnsAreShort) {
  std::thread([] {
    FiberWaits group;
    EXPECT_EQ(group.yields_of(1, 20, std::chrono::milliseconds(2)), 1);
    EXPECT_GT(group.yields_of(100, 20, std::chrono::microseconds(1)), 100);
  }).join();
}

TEST(FiberGroup, WaitsThatEndWithinItsFirstRoundsYieldNothing) {
  std::thread([] { EXPECT_EQ(FiberWaits().yields_of(100, 4, {}), 0); }).join();
}

}  // namespace
}  // namespace rondo

extern "C" __attribute__((visibility("default"))) int sched_yield() noexcept {
  using namespace rondo;
  if (clock_of_yields == nullptr) return static_cast<int>(::syscall(SYS_sched_yield));
  ++yields;
  clock_of_yields->advance(yield_takes);
  return 0;
}
